package reliable

import "time"

// The scenes of TestRecorded. Each is there for some rules, and its phases bring
// about what they speak of: windows that grow, turn over and shrink, losses of every
// kind, peers that fall silent or start anew, memory that is refused.

const milli = time.Millisecond

// budgeted stands for a Config.Reserve, for which an actor puts its own.
func budgeted(int, bool) bool { return true }

// connLike is what a connection makes of the options.
func connLike(change func(c *Config)) Config {
	c := *connConfig()
	c.ReassemblyTimeout = 5 * time.Second
	c.ReassemblyBytes = 1 << 20
	c.Reserve = budgeted
	if change != nil {
		change(&c)
	}
	return c
}

// packetLike is what a PacketConn makes of them.
func packetLike(change func(c *Config)) Config {
	return connLike(func(c *Config) {
		c.MidStream = true
		if change != nil {
			change(c)
		}
	})
}

func hertz(n int) time.Duration { return time.Second / time.Duration(n) }

var (
	fine  = road{delay: 20 * milli, jitter: 3 * milli}
	rough = road{delay: 30 * milli, jitter: 25 * milli, loss: 60, dup: 30, burst: 1, late: 20, lateBy: 150 * milli}
)

// only64 ends the names of scenes with a limit in bytes that structures count
// against, which are larger where pointers are.
const only64 = "-64"

var scenes = []scene{
	{"game", connLike(nil), connLike(nil), playGame},
	{"hostile", connLike(nil), packetLike(nil), playHostile},
	{"jumps", connLike(nil), connLike(nil), playJumps},
	{"pieces", connLike(nil), connLike(func(c *Config) { c.ReassemblyBuffer = 20 }), playPieces},
	{"restart", connLike(nil), connLike(nil), playRestart},
	{"clockwork", connLike(nil), connLike(func(c *Config) { c.AckDelay, c.LostAfter = 40*milli, 2*time.Second }), playClockwork},
	{"memory", connLike(nil), packetLike(nil), playMemory},
	{"reference", Config{}, Config{AckBuffer: 40}, playReference},
	{"reference-odd", Config{SentBuffer: 200, ReceivedBuffer: 100, ReassemblyBuffer: 10, RTTHistory: 100, RTTSmoothing: 0.1},
		Config{SentBuffer: 37, ReceivedBuffer: 300, ReassemblyBuffer: 3, RTTHistory: 33, AckBuffer: 20, PacketHeaderSize: -1, Reserve: budgeted}, playReference},
	{"reference-tiny", Config{SentBuffer: 2, ReceivedBuffer: 2, ReassemblyBuffer: 1, RTTHistory: 1, MaxPacketSize: 25600, FragmentSize: 100, FragmentAbove: 1500, MaxFragments: 256, Reserve: budgeted},
		Config{SentBuffer: 16, ReceivedBuffer: 1, ReassemblyBuffer: 2, RTTHistory: 32, AckBuffer: -1, MaxPacketSize: 25000, FragmentSize: 100, FragmentAbove: 60, MaxFragments: 250, RTTSmoothing: -1, LossSmoothing: 0.5, BandwidthSmoothing: 1}, playReference},
	{"reference-guarded", Config{JumpGuard: true, AckGuard: true, SmoothingInterval: hertz(30)}, Config{SentBuffer: 1024, ReceivedBuffer: 64, JumpGuard: true, AckGuard: true, AckRefused: true}, playReference},
	{"game-mixed", connLike(nil), Config{}, playGame},
	{"game-fixed", Config{AckDelay: 20 * milli, AckBuffer: -1}, Config{AckDelay: 100 * milli, SentBuffer: 64, ReceivedBuffer: 64, RTTSmoothing: 0.05}, playGame},
	{"game-slow-acks", connLike(func(c *Config) { c.AckDelay, c.MaxWindow = 200*milli, 64 }), connLike(func(c *Config) { c.AckDelay, c.RTTHistory = time.Millisecond, 20 }), playGame},
	{"game-least", connLike(func(c *Config) { c.AckDelay, c.SmoothingInterval, c.ReassemblyTimeout = 1, 1, 1 }), Config{AckDelay: 1, AckBuffer: 1, ReassemblyTimeout: 1, SmoothingInterval: 1}, playGame},
	{"reference-one", Config{SentBuffer: 1, ReceivedBuffer: 1, ReassemblyBuffer: 1, RTTHistory: 2, LossSmoothing: 1}, Config{SentBuffer: 4, ReceivedBuffer: 4, ReassemblyBuffer: 4, LossSmoothing: -1, BandwidthSmoothing: -1}, playReference},
	{"one-way", connLike(nil), connLike(nil), playOneWay},
	{"echo", connLike(nil), connLike(nil), playEcho},
	{"rhythm", connLike(nil), connLike(func(c *Config) { c.AckDelay = 50 * milli }), playRhythm},
	{"flood", connLike(nil), connLike(func(c *Config) { c.MaxWindow = 1024 }), playFlood},
	{"silence", connLike(nil), connLike(func(c *Config) { c.LostAfter = 3 * time.Second }), playSilence},
	{"patience", connLike(func(c *Config) { c.LostAfter = -1 }), Config{MaxWindow: 256, JumpGuard: true}, playSilence},
	{"pieces-plain", Config{}, Config{ReassemblyTimeout: time.Second, FragmentAbove: 100, Reserve: budgeted}, playPieces},
	{"pieces-tight" + only64, connLike(nil), connLike(func(c *Config) { c.ReassemblyBytes = 40000 }), playPieces},
	{"pieces-tighter" + only64, Config{}, Config{ReassemblyBytes: 20000, Reserve: budgeted}, playPieces},
	{"clockwork-midstream", packetLike(func(c *Config) { c.MaxWindow = 256 }), packetLike(nil), playClockwork},
	{"clockwork-reference", Config{JumpGuard: true, SmoothingInterval: 10 * milli, ReassemblyTimeout: time.Second}, Config{ReassemblyTimeout: 500 * milli}, playClockwork},
	{"grid", connLike(nil), connLike(nil), playGrid},
	{"restart-midstream", packetLike(nil), packetLike(nil), playRestart},
	{"restart-plain", Config{AckGuard: true}, Config{JumpGuard: true}, playRestart},
	{"jumps-midstream", packetLike(nil), packetLike(nil), playJumps},
	{"jumps-plain", Config{JumpGuard: true}, Config{ReceivedBuffer: 100}, playJumps},
	{"hostile-plain", Config{}, Config{ReceivedBuffer: 77, SentBuffer: 77, ReassemblyBuffer: 7}, playHostile},
}

// playReference is a game with the options of the reference, through good and bad
// times and more than once around the sequences.
func playReference(s *stage, a, b *actor) {
	s.roads(fine)
	b.plain = true
	a.begin(traffic{every: hertz(30), min: 1, max: 300})
	b.begin(traffic{every: hertz(20), shake: 10 * milli, min: 1, max: 300, empty: 200})
	s.phase("good", 3*time.Second)
	s.roads(rough)
	s.phase("rough", 3*time.Second)
	a.begin(traffic{every: 100 * milli, shake: 50 * milli, min: 0, max: 6000, edges: 300})
	s.phase("fragments", 3*time.Second)
	a.refuse, b.refuse = 100, 50
	s.phase("refused", 2*time.Second)
	a.refuse, b.refuse = 0, 0
	a.send(30000)
	b.keep = true
	s.phase("kept", 5*time.Second)
	b.keep = false
	s.tick = 90 * milli
	b.begin(traffic{})
	b.road.dead = true
	s.phase("deaf", 3*time.Second)
	b.road = fine
	a.begin(traffic{every: 40 * time.Microsecond, min: 5, max: 9})
	b.begin(traffic{every: 400 * time.Microsecond, min: 0, max: 9})
	s.roads(road{delay: milli, loss: 5})
	s.phase("around", 700*milli)
	a.begin(traffic{every: 300 * milli, min: 5, max: 900})
	b.begin(traffic{})
	a.e.Compact(s.time())
	b.e.Compact(s.time())
	s.phase("slow", 3*time.Second)
	a.begin(traffic{})
	s.phase("idle", time.Second)
	a.e.Compact(s.time())
	b.e.Compact(s.time())
	b.begin(traffic{every: 50 * milli, max: 2000})
	s.phase("compact", time.Second)
	a.e.Reset()
	b.e.resetAll(s.time())
	a.begin(traffic{every: 50 * milli, max: 2000})
	s.phase("reset", time.Second)
	a.e.resetAll(s.time())
	b.e.Reset()
	s.phase("reset-all", time.Second)
	a.e.Free()
	b.e.Free()
	a.start()
	b.start()
	s.phase("anew", time.Second)
}

// playGame is what the acknowledgements of a connection are made for: messages in
// both directions at game rates.
func playGame(s *stage, a, b *actor) {
	s.roads(fine)
	a.begin(traffic{every: hertz(60), min: 20, max: 60})
	b.begin(traffic{every: hertz(20), min: 100, max: 1500})
	s.phase("fresh", 300*milli)
	s.phase("good", 5*time.Second)
	a.road.loss, b.road.loss = 10, 50
	s.phase("losses", 5*time.Second)
	s.roads(rough)
	s.phase("rough", 5*time.Second)
	a.road.burst = 12
	s.lag = milli
	s.phase("bursts", 4*time.Second)
	s.roads(road{delay: 60 * milli, jitter: 40 * milli, late: 100, lateBy: 400 * milli})
	s.phase("late", 4*time.Second)
	s.roads(fine)
	b.begin(traffic{})
	s.phase("alone", 4*time.Second)
	a.begin(traffic{})
	s.phase("idle", 3*time.Second)
	a.e.Compact(s.time())
	b.e.Compact(s.time())
	s.phase("compact", time.Second)
	a.begin(traffic{every: 700 * milli, min: 10, max: 10})
	b.begin(traffic{every: 450 * milli, shake: 300 * milli, min: 10, max: 5000, edges: 300})
	s.phase("slow", 8*time.Second)
	s.roads(rough)
	a.begin(traffic{every: hertz(128), min: 10, max: 40, burst: 2})
	b.begin(traffic{every: hertz(10), min: 10, max: 4000, burst: 3})
	s.phase("quick", 5*time.Second)
}

// playOneWay has one side listen only.
func playOneWay(s *stage, a, b *actor) {
	s.roads(fine)
	a.begin(traffic{every: hertz(10), min: 8, max: 8})
	s.phase("ten", 6*time.Second)
	a.begin(traffic{every: hertz(128), min: 8, max: 8})
	s.phase("many", 6*time.Second)
	a.road.loss = 30
	s.phase("losses", 6*time.Second)
	s.roads(rough)
	s.phase("rough", 6*time.Second)
	s.roads(road{delay: 5 * milli, jitter: 4 * milli})
	a.begin(traffic{every: hertz(2000), min: 8, max: 8})
	s.phase("thousands", time.Second)
	a.road.loss, a.road.late, a.road.lateBy = 10, 20, 12*milli
	s.phase("overtaken", time.Second)
	a.road.loss, a.road.late, a.road.lateBy = 0, 3, 14*milli
	s.phase("rarely-overtaken", time.Second)
	a.begin(traffic{every: 3 * time.Second, min: 8, max: 3000})
	s.phase("rare", 15*time.Second)
	a.road.loss = 300
	a.begin(traffic{every: 1200 * milli, min: 8, max: 8, burst: 1})
	s.phase("rare-losses", 20*time.Second)
	b.road.loss = 500
	s.phase("rare-answers", 20*time.Second)
}

// playEcho has one side answer all that the other says.
func playEcho(s *stage, a, b *actor) {
	s.roads(fine)
	b.answer = true
	a.begin(traffic{every: hertz(30), min: 8, max: 50})
	s.phase("good", 6*time.Second)
	s.roads(rough)
	s.phase("rough", 6*time.Second)
	a.begin(traffic{every: hertz(30), min: 1000, max: 1100, burst: 1})
	s.phase("pieces", 3*time.Second)
	s.roads(road{delay: 100 * time.Microsecond})
	a.begin(traffic{every: hertz(5000), min: 8, max: 8})
	s.phase("quick", time.Second)
	a.begin(traffic{every: hertz(4), min: 8, max: 8})
	b.refuse = 200
	s.phase("slow", 4*time.Second)
	a.mute, b.mute = true, true
	a.begin(traffic{every: hertz(60), min: 8, max: 8})
	s.phase("mute", 2*time.Second)
}

// playRhythm sends in many rhythms, for the time that acknowledgements wait.
func playRhythm(s *stage, a, b *actor) {
	s.roads(road{delay: 12 * milli})
	for _, r := range []struct {
		name string
		a, b traffic
		d    time.Duration
	}{
		{"same", traffic{every: 15 * milli}, traffic{every: 15 * milli}, 1500 * milli},
		{"different", traffic{every: 11 * milli}, traffic{every: 17 * milli}, 1500 * milli},
		{"border", traffic{every: 20 * milli}, traffic{every: 39 * milli}, 1500 * milli},
		{"shaken", traffic{every: 10 * milli, shake: 14 * milli}, traffic{every: 30 * milli, shake: 30 * milli}, 3 * time.Second},
		{"bursts", traffic{every: 50 * milli, burst: 5}, traffic{every: 33 * milli, burst: 20}, 2 * time.Second},
		{"pauses", traffic{every: 1900 * milli, burst: 1}, traffic{every: 2100 * milli, burst: 1}, 15 * time.Second},
		{"slowing", traffic{every: 600 * milli}, traffic{every: 90 * milli}, 5 * time.Second},
		{"quick", traffic{every: 400 * time.Microsecond}, traffic{every: 700 * time.Microsecond}, 500 * milli},
		{"half", traffic{every: 15 * milli}, traffic{}, 3 * time.Second},
		{"other-half", traffic{}, traffic{every: 25 * milli}, 3 * time.Second},
		{"meeting", traffic{every: 18 * milli}, traffic{every: 120 * milli}, 4 * time.Second},
	} {
		r.a.min, r.a.max, r.b.min, r.b.max = 30, 60, 30, 1200
		a.begin(r.a)
		b.begin(r.b)
		s.phase(r.name, r.d)
	}
}

// playFlood makes windows grow, turn over and shrink.
func playFlood(s *stage, a, b *actor) {
	s.roads(road{delay: 4 * milli, jitter: milli / 10})
	a.begin(traffic{every: hertz(4000), min: 8, max: 8})
	s.phase("begin", 200*milli)
	s.phase("four-thousand", 800*milli)
	a.begin(traffic{every: hertz(60000), min: 8, max: 8})
	s.phase("sixty-thousand", 600*milli)
	b.begin(traffic{every: hertz(3000), min: 8, max: 20})
	a.road.loss, a.road.dup, a.road.late, a.road.lateBy = 5, 5, 5, 3*milli
	s.phase("losses", 400*milli)
	a.begin(traffic{})
	s.phase("back", 400*milli)
	b.begin(traffic{})
	s.phase("end", 3*time.Second)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.phase("compact", 100*milli)
	a.begin(traffic{every: hertz(2000), min: 8, max: 8})
	b.begin(traffic{every: hertz(2000), min: 8, max: 8})
	s.phase("again", 500*milli)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.phase("compact-busy", 200*milli)
	s.each(func(x *actor) { x.deny = true })
	a.begin(traffic{every: hertz(20000), min: 8, max: 8})
	b.begin(traffic{every: hertz(500), min: 8, max: 8})
	s.phase("denied", 200*milli)
	s.each(func(x *actor) { x.deny = false })
	a.begin(traffic{every: hertz(10000), min: 8, max: 8})
	s.phase("granted", 300*milli)
	s.each(func(x *actor) { x.e.Reset() })
	s.under = nil
	s.phase("reset", 300*milli)
	s.each(func(x *actor) { x.begin(traffic{}) })
	s.phase("over", 20*time.Second)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.phase("compact-idle", 100*milli)
}

// playSilence has sides fall silent, for different times.
func playSilence(s *stage, a, b *actor) {
	s.roads(fine)
	a.begin(traffic{every: hertz(20), min: 10, max: 100})
	b.begin(traffic{every: hertz(30), min: 10, max: 2000})
	s.phase("good", 2*time.Second)
	b.road.dead = true
	s.phase("deaf", 1500*milli)
	b.road = fine
	s.phase("heard", time.Second)
	a.road.dead, b.road.dead = true, true
	s.phase("cut", 4*time.Second)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.roads(fine)
	s.phase("back", time.Second)
	a.begin(traffic{})
	a.road.dead = true
	s.phase("listens", 5*time.Second)
	a.road = fine
	s.phase("answers", time.Second)
	b.road.dead = true
	s.phase("last-words", milli)
	b.begin(traffic{})
	s.phase("nothing", 6*time.Second)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.phase("compact", 7*time.Second)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.phase("compact-again", 7*time.Second)
	s.roads(fine)
	b.begin(traffic{every: hertz(5), min: 10, max: 10})
	s.phase("one", 3*time.Second)
	a.begin(traffic{every: hertz(5), min: 10, max: 10})
	s.tick = 400 * milli
	s.phase("two", 3*time.Second)
	s.tick = 0
	b.road.dead = true
	s.phase("unmeasured", 4*time.Second)
	s.tick = hertz(60)
	s.next = s.now
	s.phase("measured", 100*milli)
}

// playPieces is about fragments: shuffled, lost, doubled, of packets of every size.
func playPieces(s *stage, a, b *actor) {
	s.roads(road{delay: 10 * milli})
	a.begin(traffic{every: 30 * milli, min: 1, max: 16384, edges: 400})
	s.phase("good", 2*time.Second)
	a.road = road{delay: 10 * milli, jitter: 30 * milli, dup: 20}
	s.phase("shuffled", 2*time.Second)
	a.road.loss = 30
	s.phase("losses", 2*time.Second)
	b.begin(traffic{every: 100 * milli, min: 1020, max: 1030, burst: 3})
	a.begin(traffic{every: 20 * milli, min: 1, max: 4000})
	s.phase("both", 2*time.Second)
	s.tick = 200 * milli
	a.road.loss, a.road.burst = 30, 10
	s.phase("bursts", 2*time.Second)
	a.begin(traffic{every: 200 * milli, min: 10000, max: 16384, burst: 12})
	s.phase("heaps", 2*time.Second)
	a.begin(traffic{})
	b.begin(traffic{})
	s.phase("leftovers", 8*time.Second)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	a.begin(traffic{every: 5 * milli, min: 1025, max: 2048})
	a.road = road{delay: 10 * milli, jitter: 8 * milli}
	b.refuse = 200
	s.phase("refused", time.Second)
	b.refuse = 0
	a.road.loss = 100
	b.deny = true
	s.phase("denied", time.Second)
	b.deny = false
	s.phase("granted", time.Second)
	s.tick = 0
	a.begin(traffic{})
	for range 30 {
		s.run(300 * milli)
		s.each(func(x *actor) { x.e.Inner().ExpireReassemblies(s.time()); x.look() })
	}
	s.phase("expired", milli)
	s.each(func(x *actor) { x.e.Free(); x.start() })
	s.phase("freed", milli)
}

// playMemory refuses memory at the worst times.
func playMemory(s *stage, a, b *actor) {
	s.roads(fine)
	a.deny, b.deny = true, true
	a.begin(traffic{every: hertz(30), min: 10, max: 3000})
	b.begin(traffic{every: hertz(30), min: 10, max: 3000})
	s.phase("denied", time.Second)
	a.deny, a.denyNew, b.deny, b.denyNew = false, true, false, true
	s.phase("new", time.Second)
	s.each(func(x *actor) { x.begin(traffic{every: hertz(500), min: 10, max: 3000}) })
	s.phase("quick", time.Second)
	for i, name := range []string{"first", "second", "third", "fourth"} {
		a.deny, b.deny = i&1 != 0, i&2 != 0
		s.roads(rough)
		s.phase(name, 500*milli)
	}
	a.deny, b.deny = true, true
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.phase("compact", 500*milli)
	s.each(func(x *actor) { x.begin(traffic{}) })
	s.phase("idle", 5*time.Second)
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.each(func(x *actor) { x.begin(traffic{every: hertz(30), min: 10, max: 3000}) })
	s.phase("poor", time.Second)
	s.each(func(x *actor) { x.e.resetAll(s.time()) })
	s.phase("reset", time.Second)
	s.each(func(x *actor) { x.e.Free(); x.deny, x.denyNew = false, false; x.start() })
	s.phase("anew", time.Second)
	b.refuse = 300
	s.phase("refuses", time.Second)
	b.refuse = 1000
	s.each(func(x *actor) { x.e.Free(); x.start() })
	s.phase("refuses-all", time.Second)
}

// playClockwork has all happen at round times, so that limits are met exactly.
func playClockwork(s *stage, a, b *actor) {
	s.tick = 10 * milli
	s.next = 0
	s.roads(road{delay: 20 * milli})
	start := func(x *actor, t traffic) {
		x.begin(t)
		x.nextSend = s.now + t.every
	}
	start(a, traffic{every: 20 * milli, min: 10, max: 40})
	start(b, traffic{every: 40 * milli, min: 10, max: 2000})
	s.phase("good", 4*time.Second)
	s.roads(road{delay: 20 * milli, loss: 100, dup: 50, late: 50, lateBy: 40 * milli})
	s.phase("losses", 4*time.Second)
	start(a, traffic{every: 5 * milli, min: 10, max: 40})
	start(b, traffic{})
	s.phase("one-way", 4*time.Second)
	s.roads(road{delay: 20 * milli})
	start(a, traffic{every: 2 * time.Second, min: 10, max: 40})
	start(b, traffic{every: 500 * milli, min: 10, max: 4000})
	s.phase("slow", 12*time.Second)
	start(b, traffic{})
	start(a, traffic{every: 10 * time.Second, min: 10, max: 3000})
	s.phase("slowest", 51*time.Second)
	s.roads(road{dead: true})
	start(a, traffic{every: milli, min: 10, max: 10})
	s.phase("unheard", 100*milli)
	start(a, traffic{})
	s.phase("silence", 11*time.Second)
	s.roads(road{delay: 20 * milli, late: 300, lateBy: 20 * milli})
	s.tick = time.Second
	s.next = s.now
	start(a, traffic{every: milli, min: 10, max: 10})
	s.phase("thousand", 4*time.Second)
	start(b, traffic{every: 25 * milli, min: 10, max: 10})
	s.each(func(x *actor) { x.e.Compact(s.time()) })
	s.phase("thousands", 4*time.Second)
	s.tick = 0
	start(a, traffic{every: 100 * milli, min: 2000, max: 3000})
	s.roads(road{delay: 20 * milli, loss: 300})
	s.phase("pieces", 3*time.Second)
	s.each(func(x *actor) { x.e.resetAll(s.time()) })
	s.under = nil
	s.phase("reset", time.Second)
	s.each(func(x *actor) { x.e.resetAll(s.time()) })
	s.under = nil
	s.tick = 250 * milli
	s.next = s.now + 125*milli
	s.phase("reset-again", time.Second)
}

// playGrid sends at a rate whose times meet the margin of losses exactly, which is
// made of eighths and shares of a round trip of 40 ms.
func playGrid(s *stage, a, b *actor) {
	const step = 40 * milli / 512
	s.roads(road{delay: 20 * milli, loss: 30})
	b.road.loss = 0
	a.begin(traffic{every: step, min: 8, max: 8})
	a.nextSend = 0
	s.phase("first", 500*milli)
	a.begin(traffic{every: 16 * step, min: 8, max: 8})
	s.phase("slower", 2*time.Second)
	a.begin(traffic{every: step, min: 8, max: 8})
	a.nextSend = (s.now + step) / step * step
	s.phase("again", 300*milli)
	a.road.late, a.road.lateBy = 50, 8*step
	s.phase("late", 300*milli)
	b.begin(traffic{every: 64 * step, min: 8, max: 8})
	b.nextSend = (s.now + step) / step * step
	s.phase("both", 500*milli)
}
