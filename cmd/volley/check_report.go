package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"volley"
	"volley/netcode"
	"volley/secure"
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
	NAT       string  `json:"nat,omitempty"` // none, some or unknown
	SeenAs    string  `json:"seen_as,omitempty"`
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

func (r *checkReport) wrong() bool {
	return slices.ContainsFunc(r.Findings, func(f finding) bool { return f.State == stateWrong })
}

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
	case unreachable(h.refused):
		r.add(stateWrong, topic, fmt.Sprintf("there is no route to %s: %v", server, inner(h.refused)),
			"look at the address, and at the routes of this machine and of the networks on the way")
	default:
		advice := fmt.Sprintf("is \"volley serve%s\" running there, and do all firewalls let UDP port %d and the answers pass?",
			r.serve, server.Port)
		r.add(stateWrong, topic, fmt.Sprintf("nothing came back from %s within %v", server, timeout), advice)
	}
}

// notJoined reports that a server of package secure has given no session, if that is
// what an error says.
func (r *checkReport) notJoined(err error) bool {
	const topic = "reachable"
	if dial, ok := errors.AsType[*secure.DialError](err); ok {
		_, port, _ := net.SplitHostPort(dial.Address)
		switch dial.Step {
		case "tcp":
			r.add(stateWrong, topic, fmt.Sprintf("TCP port %s does not answer: %v", port, inner(dial.Err)),
				fmt.Sprintf("is \"volley serve%s\" running there, and do all firewalls let TCP and UDP port %s pass?", r.serve, port))
		case "udp", "expired":
			r.add(stateWrong, topic, fmt.Sprintf("TCP port %s gives connect tokens, and UDP port %[1]s does not answer", port),
				fmt.Sprintf("let UDP port %s pass all firewalls, as TCP does; a container publishes %[1]s/udp and %[1]s/tcp", port))
		default:
			r.add(stateWrong, topic, strings.TrimPrefix(err.Error(), "secure: "), "")
		}
		return true
	}
	if _, refused := errors.AsType[*secure.RefusedError](err); refused {
		r.add(stateWrong, topic, strings.TrimPrefix(err.Error(), "secure: "), "")
		return true
	}
	return false
}

// inner returns what the system says, without operation and addresses.
func inner(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}

// size tells whether large messages come back, as small ones do.
func (r *checkReport) size(passes bool) {
	const topic = "large messages"
	if passes {
		r.add(stateOK, topic, fmt.Sprintf("%d bytes pass there and back, the most that volley does not fragment by default", largeSize), "")
		return
	}
	r.add(stateWrong, topic, fmt.Sprintf("messages of %d bytes do not come back, and small ones do", largeSize),
		"find the size that passes by \"volley ping --size\", and set Config.FragmentAbove and FragmentSize to no more at both ends")
}

// nat tells what becomes of our address, as the server sees it.
func (r *checkReport) nat(local, seen netip.AddrPort) {
	const topic = "NAT"
	switch {
	case !seen.IsValid():
		r.NAT = "unknown"
		r.add(stateUnknown, topic, "unknown, because the server does not say how it sees this machine", "run it as \"volley serve\"")
	case seen == local:
		r.NAT = "none"
		r.add(stateOK, topic, fmt.Sprintf("none: the server sees this machine as it sees itself, %s", local), "")
	default:
		r.NAT = "some"
		r.add(stateOK, topic, fmt.Sprintf("there is one, which maps %s to %s", local, seen), "")
	}
}

// maxSkew is how far clocks may differ, since some tokens live for 30 s only.
const maxSkew = 2 * time.Second

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

func (r *checkReport) token(t netcode.TokenInfo, now time.Time) {
	const topic = "token"
	left, life := t.Expires.Sub(now).Round(time.Second), t.Expires.Sub(t.Created)
	switch {
	case t.Created.Sub(now) > time.Second:
		r.add(stateWrong, topic, fmt.Sprintf("it will be made in %v by this machine's clock, which is behind the issuer's by that or more", t.Created.Sub(now).Round(time.Second)),
			"keep both clocks by NTP")
	case t.Expires.IsZero():
		r.add(stateOK, topic, "valid, and never expires", "")
	case left <= 0:
		r.add(stateWrong, topic, fmt.Sprintf("it expired %v ago, and was valid for %v", -left, life),
			"get a new token; if this one is new, this machine's clock is ahead of the issuer's: keep both by NTP")
	default:
		r.add(stateOK, topic, fmt.Sprintf("valid for %v, of %v", left, life), "")
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
		text := fmt.Sprintf("the kernel grants %s to receive and %s to send; volley asks for %s", formatSize(t.ReadBuffer), formatSize(t.WriteBuffer), formatSize(wantBuffer))
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
	r.add(stateHint, "offload", text, "each datagram takes a system call; Linux 5.0 has both, unless VOLLEY_DISABLE_OFFLOAD=1 is set")
}

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
