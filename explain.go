package volley

import (
	"strings"
	"time"
)

// The kinds of findings, the most serious first.
const (
	findingEnded         = "ended"
	findingPeerRefuses   = "peer refuses"
	findingPeerSilent    = "peer silent"
	findingPeerDeaf      = "peer deaf"
	findingMoved         = "moved"
	findingSizesDiffer   = "sizes differ"
	findingHandlerBlocks = "handler blocks"
	findingSocketFull    = "socket full"
	findingMemoryFull    = "memory full"
	findingInboxFull     = "inbox full"
	findingSendBlocked   = "send blocked"
	findingWindowShort   = "window short"
	findingLossSending   = "loss sending"
	findingLossReceiving = "loss receiving"
	findingMalformed     = "malformed"
	findingJitter        = "jitter"
	findingOneWay        = "one way"
)

// A Finding is one thing that limits or hurts a connection. Which figures it has
// follows from its Kind; the others are zero.
type Finding struct {
	// Kind is one of these, the most serious first:
	//
	//   - "ended": the connection has been closed or has ended.
	//   - "peer refuses": the peer's machine says that nobody listens on the port
	//     (ICMP), and nothing has been heard since. Anybody may have sent that.
	//   - "peer silent": nothing has been heard for Duration, though the peer should
	//     have answered or sent a keepalive.
	//   - "peer deaf": the peer is heard, but acknowledges nothing of what is sent, for
	//     Duration, so that Count messages wait: the way to it is interrupted, as by a
	//     firewall.
	//   - "moved": Duration ago, the peer came to be reached by another way, Count times
	//     within the period. Messages that were under way are lost, and round-trip times
	//     begin anew.
	//   - "sizes differ": Count datagrams of the peer, and with them the Share of its
	//     messages, were refused, because they are larger than Config.MaxMessageSize
	//     allows or cut by another Config.FragmentSize.
	//   - "handler blocks": the Handler of [Listener.Serve] or Poll has taken 20 ms or more
	//     for the messages at hand, Count times and for Duration in all, whatever
	//     connections of the socket they were of.
	//   - "socket full": Count datagrams have found the receive buffer of our own
	//     socket full, of Value bytes: those of all connections of a Listener.
	//   - "memory full": what all connections of the Listener hold has reached
	//     ListenConfig.MaxMemory, of Limit bytes, and Count requests for more were
	//     refused.
	//   - "inbox full": Count messages have found Config.ReadBuffer full, or at least
	//     half of its Limit bytes wait for Read, Value bytes.
	//   - "send blocked": what is sent does not leave: the system or the connection
	//     below takes nothing for Duration, or has refused Count datagrams, of all
	//     connections of a Listener.
	//   - "window short": Count messages have left the window of Limit packets before
	//     their acknowledgement could come. They count as lost and have perhaps
	//     arrived. It is not told where no acknowledgements come at all.
	//   - "loss sending": Count of our messages, the Share of those whose fate was
	//     decided, have not been acknowledged. Whether the network has lost them or
	//     the peer has, only the peer can tell. Messages without an answer when the
	//     connection ended are not among them.
	//   - "loss receiving": Count messages of the peer, as the Share of what it sent,
	//     have been lost in the network.
	//   - "malformed": Count datagrams from the peer's address, the Share of all, were
	//     none of this protocol.
	//   - "jitter": the latest round-trip times lie Duration away from the smoothed one
	//     on average.
	//   - "one way": all messages go one way, which is nothing wrong, but limits what
	//     is known: the side that sends measures loss and round-trip times.
	Kind     string
	Count    uint64  // cases within Explanation.Period
	Share    float64 // 0 to 1
	Duration time.Duration
	// Value is what there is, and Limit the most there may be, both in bytes or packets.
	Value, Limit int64
	// Text says it in a sentence. Advice says, in another one, what mends it,
	// and is empty where nothing at this side does. The wording is for people
	// and may change.
	Text, Advice string
}

// An Explanation says what limits or hurts a connection.
type Explanation struct {
	// Period is the time that counts in the findings are about, up to now.
	Period time.Duration
	// Findings are what was found, the most serious first. Fields and kinds may be added.
	Findings []Finding
	// Missed tells of Period where messages of the peer got lost.
	Missed MissedMessages
}

// OK reports whether nothing is wrong: the only finding, if any, is "one way".
func (e Explanation) OK() bool {
	for _, f := range e.Findings {
		if f.Kind != findingOneWay {
			return false
		}
	}
	return true
}

// String returns the findings and advice as text, one a line.
func (e Explanation) String() string {
	var lines []string
	if e.OK() {
		lines = append(lines, "Nothing is wrong.")
	}
	for _, f := range e.Findings {
		lines = append(lines, strings.TrimSpace(f.Text+" "+f.Advice))
	}
	return strings.Join(lines, "\n")
}

// When something is worth a finding.
const (
	explainLoss    = 0.01                   // share of messages lost, of at least ...
	explainLost    = 3                      // ... so many
	explainSilence = time.Second            // without an answer, where one is due, or ...
	explainRTTs    = 4                      // ... so many round trips, if that is more
	explainJitter  = 10 * time.Millisecond  // away from the average, if it is also ...
	explainVary    = 8                      // ... this part of the round-trip time
	explainOneWay  = 10                     // messages one way, and none the other
	explainBlocked = 100 * time.Millisecond // that something waits to leave
	explainRecent  = 5 * time.Second        // what of before is compared with is at least so old
)

// Explain says what limits or hurts the connection at this moment, as findings
// that a program can look at and that print as sentences, with the setting that
// mends each where there is one. These count:
//
//   - loss of at least 1 % and three messages, each way, with what the own socket
//     and the own inbox have dropped told apart;
//   - a peer that was not heard for a second, or four round trips and AckDelay,
//     where an answer is due, or for two and a half of our KeepAlive where none is;
//   - a refusal by the peer's machine since the peer was last heard, and messages
//     without an acknowledgement for twice that time though the peer is heard;
//   - any datagram of the peer that was refused for its size or that of its
//     fragments, and three malformed ones, if they are 1 %;
//   - a Handler that takes 20 ms or more at a time, while nobody is heard;
//   - any datagram that found the socket's receive buffer full, any message or
//     memory refused, and a ReadBuffer that is half full;
//   - any message that left the window before its fate was known, and what waits
//     for 100 ms to be sent;
//   - round-trip times that are 10 ms and an eighth of them away from their
//     average, of late;
//   - ten messages one way and none the other.
//
// Counts, such as loss, are those since an earlier call of at least five seconds
// ago. The first call is about the whole life of the connection. With a call each
// second, the others are about the last five to ten seconds. Explanation.Period is
// that time. Everything else is as it stands. Explain may be called by several
// goroutines, which then share the period. It costs nothing while it is not called.
func (c *Conn) Explain() Explanation {
	now := c.look()
	c.mu.Lock()
	r := c.extraLocked()
	if r.looks == nil {
		r.looks = new(looks)
	}
	before := r.looks.since(now)
	c.mu.Unlock()
	return explain(before, now)
}

// looks are what earlier calls of Explain have seen.
type looks struct{ older, newer look }

// since returns what to compare the present with, and notes it.
func (l *looks) since(now *look) *look {
	if now.at-l.newer.at >= explainRecent || l.newer.at == 0 {
		l.older, l.newer = l.newer, *now
	}
	before := l.older
	return &before
}
