package volley

import (
	"fmt"
	"io"
	"slices"
	"time"

	"volley/internal/datagram"
)

// explain returns what has come of the time between two looks at a connection.
func explain(before, now *look) Explanation {
	x := &examiner{before: before, now: now, period: now.at - before.at}
	x.missed = missed(x.missing(), x.delta(drops), x.delta(missedSizes), x.delta(refusedMessages))
	if now.ended != nil {
		x.ended()
	} else {
		x.peer()
		x.moved()
		x.blocked()
	}
	x.sizes()
	x.handler()
	x.socket()
	x.memory()
	x.inbox()
	x.windows()
	x.loss()
	x.malformed()
	if now.ended == nil {
		x.jitter()
		x.oneWay()
	}
	return Explanation{Period: x.period, Findings: x.found, Missed: x.missed}
}

// An examiner looks for what is wrong.
type examiner struct {
	before, now *look
	period      time.Duration
	missed      MissedMessages
	found       []Finding
}

func (x *examiner) add(f Finding) { x.found = append(x.found, f) }

// Counters of Stats.
func drops(s *Stats) uint64           { return s.Transport.Drops }
func refusedMessages(s *Stats) uint64 { return s.MessagesRefused }
func missedSizes(s *Stats) uint64     { return s.Missed.Sizes }
func sentMessages(s *Stats) uint64    { return s.MessagesSent }
func gotMessages(s *Stats) uint64     { return s.MessagesReceived }
func delivered(s *Stats) uint64       { return s.MessagesDelivered }
func lost(s *Stats) uint64            { return s.MessagesLost }
func gotPackets(s *Stats) uint64      { return s.PacketsReceived }

// delta returns by how much a counter has grown.
func (x *examiner) delta(counter func(*Stats) uint64) uint64 {
	return since(counter(&x.before.stats), counter(&x.now.stats))
}

// missing returns how many packets of the peer are missing. The sum is exact, its parts are not.
func (x *examiner) missing() uint64 {
	return x.delta(func(s *Stats) uint64 { return s.Missed.Network + s.Missed.Socket })
}

func (x *examiner) within() string {
	return "within " + roundTime(x.period).String()
}

// roundTime keeps three digits or so.
func roundTime(d time.Duration) time.Duration {
	for unit := time.Hour; unit > time.Microsecond; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}

func (x *examiner) ended() {
	why := x.now.ended
	if why == io.EOF {
		why = datagram.ErrPeerClosed
	}
	x.add(Finding{Kind: findingEnded, Duration: x.now.silent, Text: fmt.Sprintf("The connection has ended: %v.", why)})
}

// peer finds why the peer does not answer.
func (x *examiner) peer() {
	n := x.now
	rtt := explainRTTs * n.stats.RTT
	due := max(explainSilence, rtt+n.ackDelay)
	idle := 2*n.keepAlive + n.keepAlive/2
	switch {
	case n.refusal != nil:
		x.add(Finding{Kind: findingPeerRefuses, Duration: n.silent,
			Text:   fmt.Sprintf("The peer's machine says that nobody listens on the port (%v); %s.", n.refusal, x.silence()),
			Advice: "Start the program there, or look whether address and port are right."})
	case min(n.silent, n.oldest) >= due, n.keepAlive > 0 && n.silent >= idle:
		x.add(Finding{Kind: findingPeerSilent, Duration: n.silent,
			Text:   fmt.Sprintf("The peer is silent: %s, and %d messages wait for an acknowledgement.", x.silence(), n.open),
			Advice: "Look whether its program runs, is not stopped, and whether the network and firewalls let UDP pass."})
	case n.heard && n.oldest >= 2*due:
		x.add(Finding{Kind: findingPeerDeaf, Count: uint64(n.open), Duration: n.oldest,
			Text:   fmt.Sprintf("The peer is heard, but acknowledges nothing: %d messages wait for that, the oldest for %v.", n.open, roundTime(n.oldest)),
			Advice: "The messages of this side do not arrive: look at firewalls and address translation on the way there."})
	}
}

// moved tells of another way to the peer.
func (x *examiner) moved() {
	n := x.delta(func(s *Stats) uint64 { return s.Moves })
	if n == 0 {
		return
	}
	ago := x.now.at - x.now.movedAt
	x.add(Finding{Kind: findingMoved, Count: n, Duration: ago,
		Text: fmt.Sprintf("The session moved %v ago: the peer is reached by another way (%d times %s), and what was under way then is lost.", roundTime(ago), n, x.within())})
}

// unheard reports whether it was found that no acknowledgements come at all.
func (x *examiner) unheard() bool {
	return len(x.found) > 0 && slices.Contains([]string{findingEnded, findingPeerRefuses, findingPeerSilent, findingPeerDeaf}, x.found[0].Kind)
}

// silence says since when the peer has not been heard.
func (x *examiner) silence() string {
	if !x.now.heard {
		return "it has never been heard"
	}
	return fmt.Sprintf("it was heard %v ago", roundTime(x.now.silent))
}

func (x *examiner) blocked() {
	n, b := x.now, x.before
	errors := since(b.writeErrors, n.writeErrors)
	waits := n.pendingFor
	if n.busy && b.busy && x.delta(sentMessages) == 0 && x.period >= explainSilence {
		waits = max(waits, x.period)
	}
	if waits < explainBlocked {
		waits = 0
	}
	if waits == 0 && (errors == 0 || n.refusal != nil) {
		return
	}
	f := Finding{Kind: findingSendBlocked, Count: errors, Duration: waits}
	switch {
	case waits > 0:
		f.Text = fmt.Sprintf("Messages do not leave this machine: the socket or connection below has taken nothing for %v.", roundTime(waits))
		f.Advice = "Its send buffer is full or the system is short of memory: send less, or look what holds it up; a write deadline ends the wait of Write."
	default:
		f.Text = fmt.Sprintf("The system has refused to send %d times %s.", errors, x.within())
		f.Advice = "The network may be down, a route missing, or the send queue full: Config.Logger tells the error."
	}
	x.add(f)
}

func (x *examiner) sizes() {
	n := since(x.before.rejected, x.now.rejected)
	if n == 0 {
		return
	}
	x.add(Finding{Kind: findingSizesDiffer, Count: n, Share: share(x.missed.Sizes, x.sentByPeer()),
		Text: fmt.Sprintf("%d datagrams of the peer, of %d messages, were refused %s as too large or cut otherwise than here.",
			n, x.missed.Sizes, x.within()),
		Advice: fmt.Sprintf("Config.FragmentSize, %d here, has to be the same on both sides, and MaxMessageSize, %d here, at least the peer's largest message.",
			x.now.fragment, x.now.maxMessage)})
}

// handler finds a Handler that blocks. One that blocks now has been late once more.
func (x *examiner) handler() {
	n := since(x.before.late.Times, x.now.late.Times)
	if n == 0 {
		return
	}
	total := max(0, x.now.late.Total-x.before.late.Total)
	x.add(Finding{Kind: findingHandlerBlocks, Count: n, Duration: total,
		Text:   fmt.Sprintf("The Handler has blocked %d times %s, for %v in all: meanwhile nobody is heard on the socket.", n, x.within(), roundTime(total)),
		Advice: "Give work that takes longer than a millisecond to a goroutine of its own."})
}

func (x *examiner) socket() {
	n := x.delta(drops)
	if n == 0 {
		return
	}
	have, asked := int64(x.now.stats.Transport.ReadBuffer), int64(x.now.socketBuffer)
	f := Finding{Kind: findingSocketFull, Count: n, Value: have, Limit: asked, Share: share(x.missed.Socket, x.sentByPeer()),
		Text: fmt.Sprintf("%d datagrams %s have found the receive buffer of the own socket full, %s.", n, x.within(), formatBytes(have))}
	if have < asked {
		f.Advice = fmt.Sprintf("The system has granted less than Config.SocketBuffer asks for: raise its limit, on Linux with "+
			"\"sysctl -w net.core.rmem_max=%d\", or as root.", asked)
	} else {
		f.Advice = "Raise Config.SocketBuffer and the system's limit, on Linux net.core.rmem_max, or give the program more time to read."
	}
	x.add(f)
}

// sentByPeer returns how many packets the peer has sent, as far as is known.
func (x *examiner) sentByPeer() uint64 {
	return x.delta(gotPackets) + x.missing() + x.missed.Sizes
}

func (x *examiner) memory() {
	n := since(x.before.memoryRefused, x.now.memoryRefused)
	if n == 0 {
		return
	}
	x.add(Finding{Kind: findingMemoryFull, Count: n, Value: x.now.memoryUsed, Limit: x.now.memoryMax,
		Text: fmt.Sprintf("All connections of the Listener together hold %s of the %s that they may: %d requests for memory were refused %s, and messages lost by that.",
			formatBytes(x.now.memoryUsed), formatBytes(x.now.memoryMax), n, x.within()),
		Advice: "Read faster, or raise ListenConfig.MaxMemory."})
}

func (x *examiner) inbox() {
	n := x.now
	waits, limit := int64(n.stats.ReadQueue), int64(n.readBuffer)
	full := 2*waits >= limit && limit > 0
	refused := x.delta(refusedMessages)
	memory := n.memoryRefused > x.before.memoryRefused
	if !full && (refused == 0 || memory) {
		return
	}
	f := Finding{Kind: findingInboxFull, Count: refused, Share: share(refused, x.sentByPeer()), Value: waits, Limit: limit,
		Advice: "Read in a goroutine that does nothing else, or raise Config.ReadBuffer."}
	if refused > 0 {
		f.Text = fmt.Sprintf("%d messages %s have found the ReadBuffer of %s full: the program reads too slowly or not at all; %s wait now.",
			refused, x.within(), formatBytes(limit), formatBytes(waits))
	} else {
		f.Text = fmt.Sprintf("%s wait for Read, of %s that may: the program reads too slowly or not at all.", formatBytes(waits), formatBytes(limit))
	}
	x.add(f)
}

func (x *examiner) windows() {
	n := since(x.before.forgotten, x.now.forgotten)
	if n == 0 || x.unheard() {
		return
	}
	x.add(Finding{Kind: findingWindowShort, Count: n, Limit: int64(x.now.window), Value: int64(x.now.open),
		Text: fmt.Sprintf("%d messages %s have left the window of %d packets before their acknowledgement could come: so many are sent in a round trip.",
			n, x.within(), x.now.window),
		Advice: "Send fewer and larger messages; this is as large as windows get."})
}

func (x *examiner) loss() {
	n := since(since(x.before.undecided, x.now.undecided), x.delta(lost))
	decided := x.delta(delivered) + n
	if n >= explainLost && share(n, decided) >= explainLoss {
		x.add(Finding{Kind: findingLossSending, Count: n, Share: share(n, decided),
			Text: fmt.Sprintf("%s of the messages sent are lost: %d of %d %s.", percent(n, decided), n, decided, x.within()),
			Advice: "Either the network loses them, or the peer does: its Explain tells whether its socket or inbox is full, or sizes differ. " +
				"Large messages are lost more often, since all of their fragments have to arrive."})
	}
	if n := x.missed.Network; n >= explainLost && share(n, x.sentByPeer()) >= explainLoss {
		x.add(Finding{Kind: findingLossReceiving, Count: n, Share: share(n, x.sentByPeer()),
			Text: fmt.Sprintf("%s of what the peer sends is lost in the network: %d of %d packets %s.", percent(n, x.sentByPeer()), n, x.sentByPeer(), x.within())})
	}
}

func (x *examiner) malformed() {
	n := since(x.before.malformed, x.now.malformed)
	if n < explainLost || share(n, n+x.sentByPeer()) < explainLoss {
		return
	}
	x.add(Finding{Kind: findingMalformed, Count: n, Share: share(n, n+x.sentByPeer()),
		Text:   fmt.Sprintf("%d datagrams from the peer's address %s were malformed.", n, x.within()),
		Advice: "Another program may have that address, or one of another protocol; or somebody forges it."})
}

func (x *examiner) jitter() {
	v, rtt := x.now.variation, x.now.stats.RTT
	if rtt == 0 { // the endpoint does not know it, or it takes no time, and v is the distance from a guess
		return
	}
	if v < explainJitter || v < rtt/explainVary {
		return
	}
	x.add(Finding{Kind: findingJitter, Duration: v,
		Text:   fmt.Sprintf("Round-trip times vary: of late they are %v away from their average of %v.", roundTime(v), roundTime(rtt)),
		Advice: "A queue on the way fills and empties, as where others use the same link, or a radio link resends."})
}

func (x *examiner) oneWay() {
	sent, got := x.delta(sentMessages), x.delta(gotMessages)
	switch {
	case sent >= explainOneWay && got == 0:
		x.add(Finding{Kind: findingOneWay, Count: sent,
			Text: fmt.Sprintf("All messages go one way: %d were sent %s, and none came.", sent, x.within())})
	case got >= explainOneWay && sent == 0:
		x.add(Finding{Kind: findingOneWay, Count: got,
			Text: fmt.Sprintf("All messages go one way: %d came %s, and none were sent, so that the figures of the way there and back are not known here.", got, x.within())})
	}
}

func share(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func percent(n, of uint64) string { return fmt.Sprintf("%.1f %%", 100*share(n, of)) }

// formatBytes writes a size as people do.
func formatBytes(n int64) string {
	switch {
	case n >= 10<<20 || n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
