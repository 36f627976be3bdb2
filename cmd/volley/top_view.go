package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// show prints a look.
func (o *topOptions) show(w io.Writer, a *topAnswer, key func(*topConn) float64, live bool) error {
	list := o.worst(a, key)
	if o.json {
		return topJSON(w, a, list)
	}
	width, end := 0, "\n"
	var b strings.Builder
	if f, ok := liveTerminal(w); ok && live {
		width, end = terminalWidth(f), "\x1b[K\n"
		b.WriteString("\x1b[H")
	}
	line := func(s string) {
		if r := []rune(s); width > 0 && len(r) >= width {
			s = string(r[:width-1])
		}
		b.WriteString(strings.TrimRight(s, " ") + end)
	}
	line(fmt.Sprintf("%s, process %d, %s: %d connections, the worst by %s", printable(a.Program), a.PID, a.Time.Local().Format(time.TimeOnly), a.Total, o.sort))
	line(fmt.Sprintf("%-17s %-28s %-10s %9s %9s %7s %9s %10s %10s %9s  %s",
		"protocol", "remote", "peer", "rtt ms", "jitter ms", "loss %", "missed/s", "sent bit/s", "recv bit/s", "queued B", "explain"))
	for _, c := range list {
		protocol, peer := c.Protocol, c.Label
		if c.Over != "" {
			protocol += " / " + c.Over
		}
		if peer == "" {
			peer = c.Role
		}
		explain, _, _ := strings.Cut(c.Explain, "\n")
		line(fmt.Sprintf("%-17s %-28s %-10s %9s %9s %7s %9.1f %10s %10s %9.0f  %s", printable(protocol), printable(c.Remote), printable(peer),
			topFigure(c.RTT, 1, 2), topFigure(c.Jitter, 1, 2), topFigure(c.Loss, 100, 2), c.missed,
			topFigure(c.Send, 1, 0), topFigure(c.Receive, 1, 0), c.queue(), printable(explain)))
	}
	if live {
		b.WriteString("\x1b[J")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// topFigure returns a figure times a factor, and - for what is not known.
func topFigure(v *float64, factor float64, digits int) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, factor**v)
}

// topJSON prints a look as an object in a line: the connections as the debug page
// tells of them, the worst first.
func topJSON(w io.Writer, a *topAnswer, list []*topConn) error {
	conns := make([]json.RawMessage, len(list))
	for i, c := range list {
		conns[i] = c.raw
	}
	return json.NewEncoder(w).Encode(struct {
		Time    time.Time         `json:"time"`
		Program string            `json:"program"`
		PID     int               `json:"pid"`
		Total   int               `json:"total"`
		Conns   []json.RawMessage `json:"conns"`
	}{a.Time, printable(a.Program), a.PID, a.Total, conns})
}
