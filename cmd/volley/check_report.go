package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"volley"
)

// A checkReport is what a check has found. It is what --json prints.
type checkReport struct {
	Type     string    `json:"type"` // check
	Address  string    `json:"address"`
	Protocol string    `json:"protocol"`
	Seconds  float64   `json:"seconds"`
	Verdict  string    `json:"verdict"` // working, wrong or unreachable
	Findings []finding `json:"findings"`

	// Figures, where they are known.
	RTT       float64 `json:"rtt_ms,omitempty"`
	There     int     `json:"largest_there_bytes,omitempty"` // of UDP payload
	Back      int     `json:"largest_back_bytes,omitempty"`
	PathMTU   int     `json:"path_mtu_bytes,omitempty"` // of the narrower direction
	NAT       string  `json:"nat,omitempty"`            // none, endpoint-independent, symmetric, some or unknown
	SeenAs    string  `json:"seen_as,omitempty"`
	SeenAs2   string  `json:"seen_as_by_second_port,omitempty"`
	ClockSkew float64 `json:"server_clock_ahead_ms,omitempty"`
	limits

	begin time.Time
	serve string // the flags that the server needs
}

// limits are those of the system.
type limits struct {
	Kernel   string `json:"kernel,omitempty"`
	ReadMax  int    `json:"rmem_max_bytes,omitempty"`
	WriteMax int    `json:"wmem_max_bytes,omitempty"`
}

// A finding is one thing that was looked at.
type finding struct {
	State  string `json:"state"` // ok, wrong, hint or unknown
	Topic  string `json:"topic"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

const (
	stateOK      = "ok"
	stateWrong   = "wrong"
	stateHint    = "hint"
	stateUnknown = "unknown"
)

func (r *checkReport) add(state, topic, text, advice string) {
	r.Findings = append(r.Findings, finding{state, topic, text, advice})
}

func (r *checkReport) wrongIf(wrong bool, topic, text, advice string) {
	if wrong {
		r.add(stateWrong, topic, text, advice)
	} else {
		r.add(stateOK, topic, text, "")
	}
}

// wrong reports whether anything is wrong.
func (r *checkReport) wrong() bool {
	for _, f := range r.Findings {
		if f.State == stateWrong {
			return true
		}
	}
	return false
}

// reached tells whether the server has answered.
func (r *checkReport) reached(h *hello, server *net.UDPAddr, timeout time.Duration) {
	const topic = "reachable"
	switch {
	case h.rtt > 0:
		r.RTT = h.rtt.Seconds() * 1e3
		r.SeenAs = h.reply.Address
		who := "volley serve"
		if !h.known {
			who = "a server that echoes"
		}
		r.add(stateOK, topic, fmt.Sprintf("%s answers: %s, round trip %s", server, who, formatDuration(h.rtt)), "")
	case errors.Is(h.refused, syscall.ECONNREFUSED):
		r.add(stateWrong, topic, fmt.Sprintf("%s is there, but nobody listens on UDP port %d", server.IP, server.Port),
			"start \"volley serve\" there, on this port, or correct the port")
	case errors.Is(h.refused, syscall.EPERM), errors.Is(h.refused, syscall.EACCES):
		r.add(stateWrong, topic, fmt.Sprintf("this machine does not let datagrams to %s leave: %v", server, inner(h.refused)),
			"a firewall here forbids it: let UDP to this port pass")
	case h.refused != nil && !timedOut(h.refused):
		r.add(stateWrong, topic, fmt.Sprintf("there is no way to %s: %v", server, inner(h.refused)),
			"look at the address, and at the routes of this machine and of the networks on the way")
	default:
		advice := fmt.Sprintf("is \"volley serve%s\" running there, and do the firewalls there, here and between let UDP port %d pass, and the answers back?",
			r.serve, server.Port)
		r.add(stateWrong, topic, fmt.Sprintf("nothing came back from %s within %v", server, timeout), advice)
	}
}

func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// inner returns what the system says, without operation and addresses.
func inner(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}

// Sizes of volley's datagrams by default. Headers add up to 9 bytes to a message that
// is not fragmented, and 14 to a fragment.
const (
	defaultWhole     = 1200 + 9
	defaultFragments = 1024 + 14
)

// sizes tells the largest datagrams.
func (r *checkReport) sizes(there, back int, ip4, wholeHere, wholeThere bool) {
	headers := 48
	if ip4 {
		headers = 28
	}
	const topic = "largest datagram"
	r.There, r.Back = there, back
	if !wholeHere || !wholeThere {
		r.add(stateUnknown, topic, "the system here or there may fragment datagrams: what it cannot send whole is not told", "")
		return
	}
	least := min(there, back)
	if least < checkHead {
		r.add(stateWrong, topic, "not even small datagrams pass to the second port and back", "look at the loss: \"volley ping\" tells it")
		return
	}
	r.PathMTU = least + headers
	text := fmt.Sprintf("%s there, %s back: packets of %d pass", atMost(there), atMost(back), least+headers)
	switch {
	case least < defaultFragments:
		r.add(stateWrong, topic, text, fmt.Sprintf(
			"too little for volley's defaults: set Config.FragmentSize to %d or less at both ends, and FragmentAbove to %d or less", least-14, least-9))
	case least < defaultWhole:
		r.add(stateWrong, topic, text, fmt.Sprintf(
			"messages of more than %d bytes that are not fragmented are lost, and by default those of up to 1200 are not: set Config.FragmentAbove to %d or less at both ends", least-9, least-9))
	default:
		r.add(stateOK, topic, text, "")
	}
}

func atMost(size int) string {
	if size >= checkMax {
		return fmt.Sprintf("at least %d bytes", size)
	}
	return fmt.Sprintf("%d bytes", size)
}

// noSecondPort tells that sizes and the NAT remain unknown.
func (r *checkReport) noSecondPort(port int, h *hello) {
	text, advice := "the server has no second port that would tell", "run it as \"volley serve\""
	if h.known {
		advice = "run it with --nat-port"
	}
	if port > 0 {
		text = fmt.Sprintf("the second port of the server, UDP %d, does not answer", port)
		advice = "let it pass the firewalls, too, or name another by --nat-port at both ends"
	}
	r.add(stateUnknown, "largest datagram", text, advice)
}

// nat tells what becomes of our address, as two ports of the server see it.
func (r *checkReport) nat(local, first, second netip.AddrPort) {
	const topic = "NAT"
	r.NAT = "unknown"
	if first.IsValid() {
		r.SeenAs = first.String()
	}
	if second.IsValid() {
		r.SeenAs2 = second.String()
	}
	seen := first
	if !seen.IsValid() {
		seen = second
	}
	switch {
	case !seen.IsValid():
		r.add(stateUnknown, topic, "the server does not tell how it sees this machine", "run it as \"volley serve\"")
	case first.IsValid() && second.IsValid() && first != second:
		r.NAT = "symmetric"
		r.add(stateWrong, topic, fmt.Sprintf("symmetric: one socket here, %s, is %s to one port of the server and %s to the other", local, first, second),
			"peers cannot reach this machine by hole punching: have a server relay, or forward a port on the router; to servers it can connect")
	case seen.Addr() == local.Addr() && seen.Port() == local.Port():
		r.NAT = "none"
		r.add(stateOK, topic, fmt.Sprintf("none: the server sees this machine as it sees itself, %s", local), "")
	case first.IsValid() && second.IsValid():
		r.NAT = "endpoint-independent"
		r.add(stateOK, topic, fmt.Sprintf("there is one, and it maps %s to %s for both ports of the server: hole punching should work", local, seen), "")
	default:
		r.NAT = "some"
		r.add(stateUnknown, topic, fmt.Sprintf("there is one, which maps %s to %s; whether it does so for all takes two ports of the server and no --secure", local, seen), "")
	}
}

// maxSkew is how far clocks may differ: tokens are made on one machine and
// looked at on another, and some live for no longer than 30 s.
const maxSkew = 2 * time.Second

// clock tells how far the clocks differ.
func (r *checkReport) clock(h *hello) {
	if !h.known {
		return
	}
	ahead := h.reply.Time.Sub(h.asked)
	r.ClockSkew = ahead.Seconds() * 1e3
	direction := "ahead of"
	if ahead < 0 {
		direction, ahead = "behind", -ahead
	}
	text := fmt.Sprintf("the server's clock is %s %s ours, within %s", formatDuration(ahead), direction, formatDuration(h.rtt/2))
	if ahead > time.Minute {
		text = fmt.Sprintf("the server's clock is %v %s ours", ahead.Round(time.Second), direction)
	}
	r.wrongIf(ahead > maxSkew, "clock", text,
		"connect tokens are not valid yet, or no longer, where clocks differ: keep both by NTP")
}

// token tells what the times of a token say.
func (r *checkReport) token(created, expires, now time.Time) {
	const topic = "token"
	left := expires.Sub(now).Round(time.Second)
	switch {
	case created.Sub(now) > time.Second:
		r.add(stateWrong, topic, fmt.Sprintf("it was made %v from now: this clock is behind that of who made it, by that or more", created.Sub(now).Round(time.Second)),
			"keep the clocks of both by NTP")
	case left <= 0:
		r.add(stateWrong, topic, fmt.Sprintf("it expired %v ago, and was valid for %v", -left, expires.Sub(created)),
			"get a new one; if it is new, this clock is ahead of that of who made it: keep both by NTP")
	default:
		r.add(stateOK, topic, fmt.Sprintf("valid for %v, of %v", left, expires.Sub(created)), "")
	}
}

// wantBuffer is what volley asks for, for each direction.
const wantBuffer = 4 << 20

// transport tells about buffers and offload, t may be nil.
func (r *checkReport) transport(t *volley.TransportStats) {
	if t == nil {
		return
	}
	if t.ReadBuffer > 0 {
		small := min(t.ReadBuffer, t.WriteBuffer)
		text := fmt.Sprintf("the kernel grants %s to receive and %s to send, of %s", formatSize(t.ReadBuffer), formatSize(t.WriteBuffer), formatSize(wantBuffer))
		if small < wantBuffer {
			advice := "bursts are lost in it when the program is busy; kern.ipc.maxsockbuf sets the limit"
			if runtime.GOOS == "linux" {
				advice = fmt.Sprintf("bursts are lost in it when the program is busy: sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%[1]d", wantBuffer)
			}
			r.add(stateHint, "buffers", text, advice)
		} else {
			r.add(stateOK, "buffers", text, "")
		}
	}
	on := func(b bool) string {
		if b {
			return "on"
		}
		return "off"
	}
	text := fmt.Sprintf("segmented sending (GSO) %s, receiving (GRO) %s", on(t.SegmentedSend), on(t.SegmentedReceive))
	if r.Kernel != "" {
		text += ", " + r.Kernel
	}
	if t.SegmentedSend && t.SegmentedReceive {
		r.add(stateOK, "offload", text, "")
		return
	}
	r.add(stateHint, "offload", text, "a system call for each datagram; Linux 5.0 has both, unless VOLLEY_DISABLE_OFFLOAD=1 is set")
}

// print prints the report.
func (r *checkReport) print(w io.Writer, asJSON bool) {
	r.Type, r.Seconds, r.Verdict = "check", time.Since(r.begin).Seconds(), "working"
	if r.wrong() {
		r.Verdict = "wrong"
		if r.RTT == 0 {
			r.Verdict = "unreachable"
		}
	}
	if asJSON {
		printJSON(w, r)
		return
	}
	width := textWidth(w)
	fmt.Fprintf(w, "%s over %s\n\n", r.Address, r.Protocol)
	for _, f := range r.Findings {
		mark := f.State
		if mark == stateUnknown {
			mark = "?"
		}
		fmt.Fprintf(w, "%-6s %-17s %s\n", mark, f.Topic, wrap(f.Text, 25, width))
		if f.Advice != "" {
			fmt.Fprintf(w, "%25s%s\n", "-> ", wrap(f.Advice, 25, width))
		}
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, r.conclusion())
}

func (r *checkReport) conclusion() string {
	wrong, hints, unknown := 0, 0, 0
	for _, f := range r.Findings {
		switch f.State {
		case stateWrong:
			wrong++
		case stateHint:
			hints++
		case stateUnknown:
			unknown++
		}
	}
	text := "It works"
	switch {
	case r.Verdict == "unreachable":
		text = "The server is not reached"
	case wrong > 0:
		text = plural(wrong, "thing is", "things are") + " wrong"
	}
	if hints > 0 {
		text += ", " + plural(hints, "hint", "hints")
	}
	if unknown > 0 {
		text += fmt.Sprintf(", %d unknown", unknown)
	}
	return text + "."
}

// withUnit finds the space between a number and its unit.
var withUnit = regexp.MustCompile(`(\d) (ms|bytes?|KiB|MiB)\b`)

// wrap breaks text into lines of a width, those after the first indented.
func wrap(text string, indent, width int) string {
	const glue = "\x00"
	text = withUnit.ReplaceAllString(text, "${1}"+glue+"$2")
	var b strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		word = strings.ReplaceAll(word, glue, " ")
		switch {
		case i == 0:
		case column+1+utf8.RuneCountInString(word) > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += utf8.RuneCountInString(word)
	}
	return b.String()
}
