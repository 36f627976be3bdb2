package volley

import (
	"testing"
	"time"
)

// A burst larger than a fresh connection's windows gets a true fate for each of
// its messages.
func TestWriteBatchFates(t *testing.T) {
	a, b := udpPair(t, nil)
	const count = 1000
	msgs := make([][]byte, count)
	for i := range msgs {
		msgs[i] = pattern(uint32(i), 256)
	}
	a.AppendReceipts(nil)
	if n, err := a.WriteBatch(msgs); n != count || err != nil {
		t.Fatalf("WriteBatch = %d, %v", n, err)
	}
	received := map[uint32]bool{}
	b.SetReadDeadline(time.Now().Add(10 * time.Second))
	for len(received) < count {
		m, err := b.ReadMessage(nil)
		if err != nil {
			t.Fatalf("%d of %d messages received: %v", len(received), count, err)
		}
		n, err := checkPattern(m)
		if err != nil {
			t.Fatal(err)
		}
		received[n] = true
	}
	fates := map[uint64]Fate{}
	for end := time.Now().Add(10 * time.Second); len(fates) < count && time.Now().Before(end); {
		for _, r := range a.AppendReceipts(nil) {
			if _, twice := fates[r.ID]; twice {
				t.Errorf("two fates for message %d", r.ID)
			}
			fates[r.ID] = r.Fate
		}
		time.Sleep(time.Millisecond)
	}
	delivered := 0
	for _, f := range fates {
		if f == Delivered {
			delivered++
		}
	}
	if len(fates) != count || delivered != count {
		t.Errorf("%d fates, %d delivered, want %d", len(fates), delivered, count)
	}
}

// What an open loop sends and the program does not get is accounted for: it
// was dropped in the socket's buffer, or found the read buffer full, or came
// when so many had been refused that the jump guard waited for a second one.
// Without offload, for the kernel counts a run that it drops as one.
func TestOpenLoopIsAccountedFor(t *testing.T) {
	a, b := udpPair(t, &Config{ReadBuffer: 64 << 10, SocketBuffer: 64 << 10, DisableOffload: true})
	msg := pattern(1, 256)
	const count = 50000
	for range count {
		a.Write(msg)
	}
	var s Stats
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s = b.Stats()
		if s.MessagesReceived+s.MessagesRefused+s.PacketsStale+s.Transport.Drops >= count {
			break
		}
	}
	if sum := s.MessagesReceived + s.MessagesRefused + s.PacketsStale + s.Transport.Drops; sum < count {
		t.Errorf("%d received, %d refused, %d parked, %d dropped: %d of %d messages are accounted for",
			s.MessagesReceived, s.MessagesRefused, s.PacketsStale, s.Transport.Drops, sum, count)
	}
	if s.MessagesRefused == 0 {
		t.Error("nothing was refused: the test tests nothing")
	}
}

// BenchmarkOpenLoop sends 100,000 messages a second whatever happens to them.
func BenchmarkOpenLoop(b *testing.B) {
	from, to := udpPair(b, nil)
	go func() {
		buf := make([]byte, 1024)
		for {
			if _, err := to.Read(buf); err != nil {
				return
			}
		}
	}()
	msg := pattern(1, 256)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for b.Loop() { // an iteration is a millisecond
		<-tick.C
		for range 100 {
			from.Write(msg)
		}
	}
	time.Sleep(50 * time.Millisecond)
	s, r := from.Stats(), to.Stats()
	b.ReportMetric(100*float64(r.MessagesReceived)/float64(s.MessagesSent), "%received")
	b.ReportMetric(float64(r.Transport.Drops), "drops")
}
