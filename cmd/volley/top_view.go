package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

func (o *topOptions) show(w io.Writer, all []*topSource, key func(*topConn) float64, live bool) error {
	var heads []string
	var conns []*topConn
	for _, s := range all {
		switch {
		case s.err != nil:
			heads = append(heads, printable(s.address)+": no answer: "+printable(s.err.Error()))
		default:
			a := s.last
			heads = append(heads, fmt.Sprintf("%s, process %d, %s: %d connections, the worst by %s", printable(a.Program), a.PID, a.Time.Local().Format(time.TimeOnly), a.Total, o.sort))
			for _, n := range a.Nodes {
				heads = append(heads, n.String())
			}
		}
		if s.last != nil {
			conns = append(conns, s.last.Conns...)
		}
	}
	list := o.worst(conns, key)
	f, ok := liveTerminal(w)
	if !ok || !live {
		_, err := io.WriteString(w, strings.Join(append(heads, topTable(list)...), "\n")+"\n")
		return err
	}
	width, height := terminalSize(f)
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i := range heads {
		heads[i] = cut(heads[i], width-1)
	}
	for _, line := range append(heads, topScreen(list, width-1, height-1-len(heads))...) {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(w, b.String())
	return err
}

// String returns the line of a node.
func (n *topNode) String() string {
	line := fmt.Sprintf("node %s, %d came, %d left", &n.topPeer, n.Came, n.Left)
	for _, p := range n.Peers {
		if p.Alive {
			line += "; " + p.String()
		} else {
			line += fmt.Sprintf("; %s silent for %.0f s", printable(p.Name), p.Heard/1000)
		}
	}
	return line
}

// String returns the state of a node in words.
func (p *topPeer) String() string {
	s := fmt.Sprintf("%s %d sessions", printable(p.Name), p.Sessions)
	switch {
	case p.Drains:
		s += " that it sends away"
	case p.Load == nil:
		s += " and wants no more"
	case *p.Load != float64(p.Sessions):
		s += fmt.Sprintf(" and a load of %g", *p.Load)
	}
	return s
}

// A topColumn is a column of the list of connections.
type topColumn struct {
	head  string
	width int // at least; negative if texts begin at the left
	rank  int // columns of higher ranks give way first where there is no room; 0: never
	cell  func(*topConn) string
}

var topColumns = []topColumn{
	{"protocol", -8, 0, func(c *topConn) string {
		if c.Over != "" {
			return printable(c.Protocol + " / " + c.Over)
		}
		return printable(c.Protocol)
	}},
	{"remote", -21, 0, func(c *topConn) string { return printable(c.Remote) }},
	{"peer", -8, 1, func(c *topConn) string { return printable(cmp.Or(c.Label, c.Role)) }},
	{"rtt ms", 7, 0, func(c *topConn) string { return topFigure(c.RTT, 1, 2) }},
	{"jitter ms", 9, 4, func(c *topConn) string { return topFigure(c.Jitter, 1, 2) }},
	{"loss %", 7, 0, func(c *topConn) string { return topFigure(c.Loss, 100, 2) }},
	{"missed/s", 8, 2, func(c *topConn) string { return fmt.Sprintf("%.1f", c.missed) }},
	{"sent B/s", 10, 5, func(c *topConn) string { return topFigure(c.Send, 1, 0) }},
	{"recv B/s", 10, 6, func(c *topConn) string { return topFigure(c.Receive, 1, 0) }},
	{"queued B", 9, 3, func(c *topConn) string { return fmt.Sprintf("%.0f", c.queue()) }},
}

// explained returns the first line of what limits or hurts the connection.
func (c *topConn) explained() string {
	line, _, _ := strings.Cut(c.Explain, "\n")
	return printable(line)
}

// widest is how many characters of a text the columns of a screen have.
const widest = 28

// topLines returns the head, the lines with the columns that fit (0: all), and their length.
func topLines(list []*topConn, width int) (lines []string, length int) {
	columns := slices.Clone(topColumns)
	cells := func(c topColumn) []string {
		texts := []string{c.head}
		for _, conn := range list {
			text := c.cell(conn)
			if width > 0 {
				text = cut(text, widest)
			}
			texts = append(texts, text)
		}
		return texts
	}
	for {
		lines, length = make([]string, len(list)+1), 0
		last := 0
		for i, c := range columns {
			if c.rank > columns[last].rank {
				last = i
			}
			texts, size, left := cells(c), max(c.width, -c.width), c.width < 0
			for _, t := range texts {
				size = max(size, utf8.RuneCountInString(t))
			}
			for k, t := range texts {
				if gap := strings.Repeat(" ", size-utf8.RuneCountInString(t)); left {
					t += gap
				} else {
					t = gap + t
				}
				lines[k] += t + " "
			}
			length += size + 1
		}
		if width == 0 || length <= width || columns[last].rank == 0 {
			return lines, length
		}
		columns = slices.Delete(columns, last, last+1)
	}
}

// topTable returns the lines of a list that need not fit anywhere.
func topTable(list []*topConn) []string {
	lines, _ := topLines(list, 0)
	for i, c := range list {
		lines[i+1] = strings.TrimRight(lines[i+1]+" "+c.explained(), " ")
	}
	lines[0] += " explain"
	return lines
}

// beside is how many characters explanations need to be beside the figures.
const beside = 60

// topScreen returns the lines of a screen. Without room beside them, explanations go below.
func topScreen(list []*topConn, width, height int) (screen []string) {
	lines, length := topLines(list, width)
	wide := width-length >= beside
	if wide {
		lines[0] += " explain"
	}
	screen = append(screen, cut(lines[0], width))
	for i, c := range list {
		rows := []string{lines[i+1]}
		if explained := c.explained(); wide {
			rows[0] += " " + explained
		} else if !c.OK && explained != "" {
			rows = append(rows, "    "+explained)
		}
		if len(screen)+len(rows) > height {
			break
		}
		for _, r := range rows {
			screen = append(screen, cut(r, width))
		}
	}
	return screen
}

// cut returns text of at most n characters, and marks where it was longer.
func cut(s string, n int) string {
	s = strings.TrimRight(s, " ")
	if r := []rune(s); len(r) > n {
		return string(r[:max(0, n-1)]) + "~"
	}
	return s
}

// topFigure returns a figure times a factor, and - for what is not known.
func topFigure(v *float64, factor float64, digits int) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, factor**v)
}
