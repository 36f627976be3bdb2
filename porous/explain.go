package porous

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"volley/porous/internal/core"
)

// An Explanation says what limits sending on a connection.
type Explanation struct {
	// Findings are what was found, the most serious first.
	Findings []Finding
}

// A Finding is one thing that limits sending. Which figures it has follows from its
// Kind; the others are zero. Fields and kinds may be added.
type Finding struct {
	// Kind is one of these:
	//
	//   - "ended": the connection has been closed or has ended.
	//   - "moved": the peer came to be reached by another way, less than 10 s ago.
	//   - "handshake": the peer has not answered yet.
	//   - "peer silent": the peer acknowledges nothing.
	//   - "channel unread": the peer takes nothing of Channels, as if nobody read them.
	//   - "losses": losses have made the congestion window smaller, which is full.
	//   - "window full": the congestion window is full.
	//   - "pacing": frames leave at the pacing rate.
	//   - "bandwidth": the bandwidth agreed upon with the peer is used up.
	//   - "frame window": as many frames have been sent as may follow the oldest
	//     unacknowledged one.
	//   - "message window": the peer has not consumed what was sent, so that as many
	//     messages of a channel have been sent as may be.
	Kind     string
	Count    uint64 // of lost frames, or of timeouts
	Channels []int
	// Value is the bytes in flight. Limit is the most that there may be: bytes of the
	// congestion window, or bytes per second.
	Value, Limit int64
	// Text says it in a sentence. Advice says, in another one, what mends it, and is
	// empty where nothing at this side does. The wording is for people and may change.
	Text, Advice string
}

// OK reports whether nothing limits sending.
func (e Explanation) OK() bool { return len(e.Findings) == 0 }

// String returns the findings and advice as text, one a line.
func (e Explanation) String() string {
	if e.OK() {
		return "Nothing limits sending: everything that may be sent has been sent."
	}
	var lines []string
	for _, f := range e.Findings {
		lines = append(lines, strings.TrimSpace(f.Text+" "+f.Advice))
	}
	return strings.Join(lines, "\n")
}

// Explain says what limits sending at this moment. It may be called at any time, and
// costs nothing while it is not called.
func (c *Conn) Explain() Explanation {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.writeErrorLocked(); {
	case c.closedLocked():
		return explained(Finding{Kind: "ended", Text: "The connection has been closed."})
	case err != nil:
		return explained(Finding{Kind: "ended", Text: fmt.Sprintf("The connection has ended: %v.", err)})
	}
	k := c.peer.Stats()
	var found []Finding
	if ago := time.Since(c.born) - c.counts.movedAt; c.counts.moves > 0 && ago < 10*time.Second {
		found = append(found, Finding{
			Kind: "moved", Count: c.counts.moves,
			Text: fmt.Sprintf("The session moved %v ago: the peer is reached by another way, and the congestion window began anew.", ago.Round(100*time.Millisecond)),
		})
	}
	if f := c.limitLocked(&k); f.Kind != "" {
		found = append(found, f)
	}
	if refused := c.refusedLocked(); len(refused) > 0 {
		found = append(found, Finding{
			Kind: "channel unread", Channels: refused,
			Text:   fmt.Sprintf("The peer takes nothing of %s, as if nobody read there.", channelNames(refused)),
			Advice: "The peer's program should read all channels that are used.",
		})
	}
	return explained(found...)
}

func explained(f ...Finding) Explanation { return Explanation{Findings: f} }

// limitLocked returns what limits all channels; its Kind is "" if nothing does.
func (c *Conn) limitLocked(k *core.Stats) Finding {
	inFlight, window := int64(k.InFlight), int64(k.Window)
	switch k.Limit {
	case core.LimitHandshake:
		return Finding{Kind: "handshake", Text: "The handshake is under way; messages wait until the peer has answered."}
	case core.LimitWindow:
		return Finding{Kind: "window full", Value: inFlight, Limit: window,
			Text: fmt.Sprintf("The congestion window of %d bytes is full: %d are in flight. It grows as they are acknowledged.", window, inFlight)}
	case core.LimitBackoff:
		lost := k.FramesLost - min(k.Spurious, k.FramesLost)
		return Finding{Kind: "losses", Count: lost, Value: inFlight, Limit: window,
			Text: fmt.Sprintf("Losses have made the congestion window smaller: it is %d bytes, %d are in flight, and %d frames have been lost so far.",
				window, inFlight, lost),
			Advice: `If the path loses frames without being full, set Config.Congestion to "tolerant".`}
	case core.LimitPacing:
		return Finding{Kind: "pacing", Value: inFlight, Limit: int64(k.PacingRate),
			Text: fmt.Sprintf("Frames leave at the pacing rate, %.0f bytes/s, which follows from the congestion window of %d bytes and a round-trip time of %v.",
				k.PacingRate, window, k.RTT.Round(time.Microsecond))}
	case core.LimitBandwidth:
		return Finding{Kind: "bandwidth", Limit: int64(k.SendBandwidth),
			Text:   fmt.Sprintf("The bandwidth agreed upon with the peer is used up: %d bytes/s.", k.SendBandwidth),
			Advice: "It is the lower one of our Config.SendBandwidth and the peer's Config.ReceiveBandwidth."}
	case core.LimitFrames:
		return Finding{Kind: "frame window", Text: "The oldest frame is not acknowledged, and as many frames as may follow it have been sent."}
	case core.LimitPackets:
		return Finding{Kind: "message window", Text: "The peer has not consumed what was sent: the window of messages of a channel is full."}
	case core.LimitSilence:
		return Finding{Kind: "peer silent", Count: k.Timeouts,
			Text: fmt.Sprintf("The peer acknowledges nothing (%d timeouts so far); a frame is tried now and then.", k.Timeouts)}
	}
	return Finding{}
}

// refusedLocked returns the channels of which the peer takes nothing.
func (c *Conn) refusedLocked() (list []int) {
	for i := range c.channels {
		if c.peer.ChannelStats(i).Unread {
			list = append(list, i)
		}
	}
	return list
}

func channelNames(list []int) string {
	if len(list) == 1 {
		return "channel " + strconv.Itoa(list[0])
	}
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = strconv.Itoa(n)
	}
	return "channels " + strings.Join(names, ", ")
}
