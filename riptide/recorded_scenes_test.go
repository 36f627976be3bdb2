package riptide

import (
	"testing"
	"time"

	"volley/internal/tape"
	"volley/internal/wire"
)

// recordedConfigs are what the scenes are played with.
func recordedConfigs() []struct {
	name string
	cfg  *Config
} {
	return []struct {
		name string
		cfg  *Config
	}{
		{"packed", &Config{IgnoreQuality: true}},
		{"2.1", &Config{Version21: true, MaxPayload: 1000, Timeout: 3 * time.Second}},
		{"notes", &Config{NotesLayout: true}},
		{"tolerant", &Config{IgnoreQuality: true, DuplicateWindow: 100 * ms, MinResend: 10 * ms, HeartbeatInterval: 150 * ms,
			Timeout: -1, MaxSends: -1, SendBuffer: 9000, MaxPayload: 1200, ConnectAttempts: 3}},
		{"tolerant notes", &Config{NotesLayout: true, IgnoreQuality: true, DuplicateWindow: 50 * ms, HeartbeatInterval: 300 * ms,
			Timeout: 10 * time.Second, PendingTimeout: 2 * time.Second}},
		{"strict", &Config{MaxMeanSends: 1.5, MaxNotifyLoss: 0.02, MaxSends: 4, PendingTimeout: 700 * ms}},
	}
}

// TestRecordedConnections plays scenes of two connections in virtual time and
// compares all that comes out of them with what came out before.
func TestRecordedConnections(t *testing.T) {
	p := tape.Open(t, "connections", "What two connections do in the scenes of TestRecordedConnections.")
	for _, v := range recordedConfigs() {
		play := func(name string, scene func(w *stageSet)) {
			scene(newStage(t, p, v.cfg, "%s, %s", v.name, name))
		}
		play("handshake", sceneHandshake)
		play("lost handshake", sceneLostHandshake)
		play("no answer", sceneNoAnswer)
		play("pending for ever", scenePending)
		play("traffic", sceneTraffic)
		play("loss", sceneLoss)
		play("floods", sceneFloods)
		play("blackouts", sceneBlackouts)
		play("pauses", scenePauses)
		play("slower", sceneSlower)
		play("wraparound", sceneWraparound)
		play("mangled", sceneMangled)
		play("silence", sceneSilence)
		play("idle", sceneIdle)
		play("one way", sceneOneWay)
		play("restart", sceneRestart)
		play("own messages", sceneOwn)
		play("noise", sceneNoise)
		play("acks", sceneAcks)
		for reason := range rejectReason(6) {
			play("reject "+reason.String(), func(w *stageSet) { sceneReject(w, reason) })
		}
		for reason := range endReason(9) {
			play("kick "+reason.String(), func(w *stageSet) { sceneKick(w, reason) })
		}
		for stage := range connState(4) {
			play("leave "+string('0'+rune(stage)), func(w *stageSet) { sceneLeave(w, stage) })
		}
	}
}

func sceneHandshake(w *stageSet) {
	w.begin([]byte{0x50, 1, 2, 3, 4})
	w.pass(30 * ms)
	w.server().do(func(_ time.Time, out *wire.Batch) { w.server().pend(out) })
	w.phase("asked")
	w.pass(2 * time.Second)
	w.phase("pending")
	w.server().do(func(now time.Time, out *wire.Batch) { w.server().accept(now, 0x1234, out) })
	w.server().do(func(_ time.Time, out *wire.Batch) { w.server().pend(out) })
	w.client().say(Reliable, 10)
	w.pass(15 * ms)
	w.phase("accepted")
	w.pass(3 * time.Second)
	w.phase("connected")
}

func sceneLostHandshake(w *stageSet) {
	w.loss = 600
	w.begin(nil)
	for w.server().count == 0 && w.client().state != stateClosed {
		w.pass(100 * ms)
	}
	w.phase("asked")
	w.server().do(func(now time.Time, out *wire.Batch) { w.server().accept(now, 65535, out) })
	w.pass(3 * time.Second)
	w.phase("connected")
	w.loss = 0
	w.pass(3 * time.Second)
	w.phase("recovered")
}

func sceneNoAnswer(w *stageSet) {
	w.dark = true
	w.begin([]byte{0x10})
	w.pass(1900 * ms)
	w.phase("two attempts")
	w.pass(10 * time.Second)
	w.phase("given up")
}

func scenePending(w *stageSet) {
	w.begin(nil)
	w.server().note()
	w.pass(100 * ms)
	w.server().do(func(_ time.Time, out *wire.Batch) { w.server().pend(out) })
	w.pass(500 * ms)
	w.phase("pending")
	w.dark = true
	w.pass(20 * time.Second)
	w.phase("over")
}

func sceneTraffic(w *stageSet) {
	w.join()
	w.talk(2*time.Second, 16*ms, 3)
	w.phase("talk")
	w.pass(2 * time.Second)
	w.phase("rest")
	w.jitter = 60 * ms
	w.talk(2*time.Second, 5*ms, 2)
	w.phase("jitter")
}

func sceneLoss(w *stageSet) {
	w.join()
	for _, w.loss = range []int{20, 100, 300} {
		w.dup = w.loss
		w.ends[0].refuse, w.ends[1].refuse = w.loss/2, w.loss/3
		w.talk(1500*ms, 10*ms, 2)
		w.phase("loss")
	}
	w.loss, w.dup, w.ends[0].refuse = 0, 0, 0
	w.pass(3 * time.Second)
	w.phase("recovered")
	w.talk(time.Second, 30*ms, 2)
	w.phase("talk")
}

func sceneFloods(w *stageSet) {
	w.join()
	for _, n := range []int{16, 17, 31, 32, 33, 120} {
		for range n {
			w.client().say(Reliable, 2+w.rng.Below(100))
		}
		w.phase("sent")
		w.pass(100 * ms)
		for range n {
			w.server().say(Reliable, 2+w.rng.Below(900))
			w.server().say(Notify, 5)
		}
		w.pass(250 * ms)
		w.phase("some arrived")
		w.loss = n / 2
	}
	w.pass(3 * time.Second)
	w.phase("all arrived")
}

func sceneBlackouts(w *stageSet) {
	w.join()
	for i := range 5 {
		w.talk(300*ms, 8*ms, 2)
		w.dark = true
		w.talk(time.Duration(i)*170*ms, 25*ms, 2)
		w.phase("dark")
		w.dark = false
		w.pass(400 * ms)
		w.phase("light")
	}
	w.dark = true
	w.talk(700*ms, 50*ms, 1)
	w.phase("dark for ever")
	w.pass(20 * time.Second)
	w.phase("over")
}

// Ticks come late, and what has arrived waits to be read.
func scenePauses(w *stageSet) {
	w.join()
	w.loss = 50
	for _, w.late = range []time.Duration{ms, 3 * ms, 20 * ms, 150 * ms} {
		w.talk(700*ms, 15*ms, 1)
		w.phase("late")
		w.unread = 400
		w.talk(700*ms, 15*ms, 1)
		w.unread = 0
		w.phase("unread")
	}
}

func sceneSlower(w *stageSet) {
	w.join()
	for _, w.latency = range []time.Duration{2 * ms, 60 * ms, 250 * ms, 900 * ms, 5 * ms} {
		w.talk(2500*ms, 40*ms, 1)
		w.phase("latency")
	}
}

func sceneWraparound(w *stageSet) {
	w.join()
	for i, a := range w.ends {
		b := w.ends[1-i]
		next := uint16(65500 + 10*i)
		a.sender.oldest, a.sender.arrived, a.sender.next, a.acks = next, next-1, next, ackRecord{newest: next - 1, bits: 1<<16 - 1}
		for _, id := range []uint16{20000, 40000, 60000, next - 1} {
			b.history.add(id)
		}
		a.notify.next, a.notify.reported, b.notify.newest = next, next-1, next-1
		a.ping = 254
	}
	w.loss, w.dup, w.jitter = 50, 50, 30*ms
	for range 6 {
		w.talk(500*ms, 12*ms, 2)
		w.phase("around")
	}
}

func sceneMangled(w *stageSet) {
	w.join()
	for _, w.mangle = range []int{20, 200, 600} {
		w.talk(700*ms, 10*ms, 1)
		w.phase("mangled")
	}
	w.mangle = 0
	w.pass(2 * time.Second)
	w.phase("recovered")
}

func sceneSilence(w *stageSet) {
	w.join()
	w.client().say(Reliable, 10)
	w.pass(1500 * ms)
	w.dark = true
	w.phase("dark")
	w.pass(2900 * ms)
	w.phase("not yet")
	w.pass(10 * time.Second)
	w.phase("over")
	w.server().say(Unreliable, 10)
	w.dark = false
	w.talk(200*ms, 20*ms, 1)
	w.phase("too late")
}

func sceneIdle(w *stageSet) {
	w.join()
	for range 3 {
		w.talk(200*ms, 15*ms, 2)
		w.pass(4800 * ms)
		w.phase("idle")
		w.pass(2500 * ms)
		w.phase("for long")
	}
}

// Only one side sends, so that fates come late and at once.
func sceneOneWay(w *stageSet) {
	w.join()
	c, s := w.client(), w.server()
	for n := range 30 {
		for range n {
			c.say(Notify, 3)
			w.pass(2 * ms)
		}
		w.pass(30 * ms)
		s.say(Notify, 3)
		w.loss = 2 * n
	}
	w.pass(100 * ms)
	w.phase("fates")
	w.loss = 0
	c.notify.reported -= maxUnreported - 5
	for range 10 {
		c.say(Notify, 0)
	}
	w.phase("forgotten")
	w.pass(100 * ms)
	s.say(Notify, 3)
	w.pass(100 * ms)
	w.phase("found")
}

func sceneRestart(w *stageSet) {
	w.join()
	connect := func() {
		var out wire.Batch
		w.client().set.appendConnect(&out, []byte{0x10, 7})
		w.deliver(serverSide, w.now, append([]byte(nil), out.At(0)...))
	}
	connect()
	w.pass(399 * ms)
	connect()
	w.phase("too soon")
	w.client().say(Unreliable, 5)
	w.pass(100 * ms)
	connect()
	w.pass(399 * ms)
	connect()
	w.pass(2 * ms)
	w.phase("life")
	w.dark = true
	connect()
	w.pass(400 * ms)
	connect()
	w.pass(10 * ms)
	w.phase("restarted")
}

// The server names other clients.
func sceneOwn(w *stageSet) {
	w.join()
	w.loss, w.client().refuse = 100, 200
	for id := range uint16(60) {
		w.server().do(func(now time.Time, out *wire.Batch) {
			w.server().sendID(now, typeClientConnected+packetType(id%2), id*1111, out)
		})
		w.pass(10 * ms)
	}
	w.phase("named")
	w.loss = 0
	w.pass(2 * time.Second)
	w.phase("all")
}

// Datagrams of chance, at each stage, to both sides.
func sceneNoise(w *stageSet) {
	noise := func(name string) {
		for range 250 {
			b := make([]byte, w.rng.Below(12))
			w.rng.Bytes(b)
			if len(b) > 0 && w.rng.Chance(900) {
				b[0] = b[0]&0xf0 | byte(w.rng.Below(12))
				if w.client().set.layout == notes {
					b[0] &= 0xf
				}
				if t := packetType(b[0] & 0xf); t == typeDisconnect || t == typeReject && w.rng.Chance(900) {
					b[0]++
				}
			}
			w.deliver(side(w.rng.Below(2)), w.now+time.Duration(w.rng.Below(int(20*ms))), b)
			w.pass(ms)
		}
		for to := range w.ends {
			for n := -1; n < 2; n++ {
				w.deliver(side(to), w.now, make([]byte, w.ends[to].set.maxPayload+maxHeaderSize+n))
			}
		}
		w.pass(50 * ms)
		w.phase(name)
	}
	noise("before")
	w.begin(nil)
	noise("connecting")
	w.server().do(func(now time.Time, out *wire.Batch) { w.server().accept(now, 9, out) })
	noise("accepted")
	w.pass(100 * ms)
	for range 20 {
		w.client().say(Reliable, 8)
		w.server().say(Reliable, 8)
		w.server().say(Notify, 8)
	}
	noise("connected")
	w.pass(2 * time.Second)
	w.phase("end")
}

// Acknowledgements of all kinds, old, new, of what was never sent.
func sceneAcks(w *stageSet) {
	w.join()
	w.dark = true
	for range 40 {
		for range w.rng.Below(40) {
			w.client().say(Reliable, 2+w.rng.Below(30))
			w.client().say(Notify, 3)
		}
		for range 4 {
			near := func(id uint16) uint16 { return id + uint16(w.rng.Below(60)) - 40 }
			newest := near(w.client().sender.next)
			some, others := w.rng.Uint64(), w.rng.Uint64()
			a := ack{newest: newest, bits: uint16(some & others)} // about a quarter are set
			if w.rng.Chance(400) {
				a.id, a.has = near(w.client().sender.next), true
			}
			var out wire.Batch
			w.client().set.appendAck(&out, a)
			w.client().set.appendNotify(&out, near(w.client().notify.newest), ack{newest: near(w.client().notify.next), bits: a.bits}, []byte{1, 2, 3})
			for i := range out.Len() {
				w.deliver(clientSide, w.now, append([]byte(nil), out.At(i)...))
			}
			w.pass(time.Duration(w.rng.Below(int(70 * ms))))
		}
	}
	w.phase("acks")
	w.pass(5 * time.Second)
	w.phase("end")
}

func sceneReject(w *stageSet, reason rejectReason) {
	w.begin(nil)
	w.pass(100 * ms)
	var data []byte
	if reason >= rejectPlain {
		data = []byte{0x30, 1, 2}
	}
	w.server().do(func(_ time.Time, out *wire.Batch) { w.server().reject(reason, data, out) })
	w.pass(100 * ms)
	w.phase("rejected")
}

func sceneKick(w *stageSet, reason endReason) {
	w.join()
	w.client().say(Reliable, 100)
	w.server().say(Reliable, 100)
	var data []byte
	if reason%2 == 0 {
		data = []byte{0x30, 1, 2}
	}
	for range 2 {
		w.server().do(func(_ time.Time, out *wire.Batch) { w.server().kick(endPoor, reason, data, out) })
	}
	w.pass(100 * ms)
	w.phase("kicked")
}

func sceneLeave(w *stageSet, stage connState) {
	if stage == stateConnected {
		w.join()
	} else {
		w.begin(nil)
		w.pass(100 * ms)
	}
	if stage == statePending {
		w.server().do(func(_ time.Time, out *wire.Batch) { w.server().pend(out) })
		w.pass(100 * ms)
	}
	w.client().do(func(_ time.Time, out *wire.Batch) { w.client().leave(out) })
	if stage == stateClosed {
		w.client().do(func(_ time.Time, out *wire.Batch) { w.client().leave(out) })
	}
	w.pass(100 * ms)
	w.phase("left")
}
