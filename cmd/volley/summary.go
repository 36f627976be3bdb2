package main

import (
	"fmt"
	"io"

	"volley"
	"volley/simnet"
)

// A result is what a demo has come to.
type result struct {
	totals
	phantoms int // acknowledged but not received
	stats    volley.Stats
	up, down simnet.Stats
}

// intact reports whether all that was delivered was as it was sent, and all
// that was acknowledged was delivered.
func (r *result) intact() bool {
	return r.corrupt == 0 && r.repeated == 0 && r.phantoms == 0
}

// print writes the summary, in lines of at most width characters.
func (r *result) print(w io.Writer, width int) {
	row := func(name string, n int, share, note string) {
		line := fmt.Sprintf("%-13s %7d %9s   ", name, n, share)
		fmt.Fprintln(w, trimRight(line+wrap(note, len(line), width)))
	}
	lost := r.sent - r.received
	fmt.Fprintln(w)
	row("sent", r.sent, "", r.sentNote())
	row("received", r.received, r.share(r.received), "")
	row("acknowledged", r.acked, r.share(r.acked), r.ackNote())
	row("lost", lost, r.share(lost), r.lossNote())
	row("corrupt", r.corrupt, "", "")
	if r.repeated > 0 {
		row("repeated", r.repeated, "", "received more often than sent")
	}
	if r.phantoms > 0 {
		row("unfounded", r.phantoms, "", "acknowledged, but not received")
	}
	if s := &r.stats; s.RTTMax > 0 {
		fmt.Fprintf(w, "\nround trip %s on average, from %s to %s\n",
			formatDuration(s.RTTMean), formatDuration(s.RTTMin), formatDuration(s.RTTMax))
	}
}

// share formats a number of messages as a share of those sent.
func (r *result) share(n int) string {
	if r.sent == 0 {
		return ""
	}
	return formatPercent(float64(n) / float64(r.sent))
}

func (r *result) sentNote() string {
	return fmt.Sprintf("messages, %s in %s", formatSize(int(r.sentBytes)), plural(int(r.up.Sent), "datagram", "datagrams"))
}

func (r *result) ackNote() string {
	if n := r.received - r.acked; n > 0 {
		return fmt.Sprintf("%d received without the sender knowing", n)
	}
	return ""
}

func (r *result) lossNote() string {
	if r.up.Sent == 0 {
		return ""
	}
	loss := min(1, float64(dropped(r.up))/float64(r.up.Sent))
	return fmt.Sprintf("of datagrams: %s", formatPercent(loss))
}
