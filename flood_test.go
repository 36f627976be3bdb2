package volley

import (
	"context"
	"testing"
	"time"

	"volley/internal/pattern"
	"volley/internal/socket"
)

// tellsDrops reports whether the system counts what a socket's buffer has no room
// for. A system that does so also tells how large the buffer is.
func tellsDrops(s *TransportStats) bool { return s.ReadBuffer > 0 }

// A burst larger than a fresh connection's windows gets a true fate for each of
// its messages: delivered if it was received, and all are unless the system
// grants the socket too little memory for the burst.
func TestWriteBatchFates(t *testing.T) {
	a, b := udpPair(t, nil)
	const count = 1000
	msgs := make([][]byte, count)
	for i := range msgs {
		msgs[i] = pattern.New(uint32(i), 256)
	}
	received := map[uint32]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := b.ReadMessage(context.Background(), nil)
			if err != nil {
				return
			}
			n, err := pattern.Check(m)
			if err != nil {
				t.Error(err)
			}
			received[n] = true
		}
	}()
	ids := make([]uint64, count)
	if n, err := a.WriteBatch(ids, msgs); n != count || err != nil {
		t.Fatalf("WriteBatch = %d messages, %v", n, err)
	}
	numbers := map[uint64]uint32{} // by id, among which there are those of packets without a message
	for i, id := range ids {
		numbers[id] = uint32(i)
	}
	fates := map[uint32]Fate{}
	for end := time.Now().Add(30 * time.Second); len(fates) < count && time.Now().Before(end); {
		for _, r := range a.AppendReceipts(nil) {
			number, ours := numbers[r.ID]
			if _, twice := fates[number]; ours && twice {
				t.Errorf("two fates for message %d", number)
			}
			if ours {
				fates[number] = r.Fate
			}
		}
		a.Write(pattern.New(count, 4)) // its acknowledgement decides what was lost
		time.Sleep(time.Millisecond)
	}
	tr := b.Stats().Transport
	for b.user.In.Len() > 0 { // delivered, and not yet read
		time.Sleep(time.Millisecond)
	}
	b.Close()
	<-done
	if len(fates) != count {
		t.Errorf("%d fates, want %d", len(fates), count)
	}
	for n, f := range fates {
		if received[n] != (f == Delivered) || f != Delivered && tellsDrops(&tr) && tr.Drops == 0 {
			t.Errorf("message %d: received %v, fate %v, %d dropped", n, received[n], f, tr.Drops)
		}
	}
}

// What an open loop sends and the program does not get is accounted for: it
// was dropped in the socket's buffer, or found the read buffer full, or came
// when so many had been refused that the jump guard waited for a second one.
// Without offload, because the kernel counts a run that it drops as one.
func TestOpenLoopIsAccountedFor(t *testing.T) {
	t.Setenv(socket.DisableOffloadEnv, "1")
	a, b := udpPair(t, &Config{ReadBuffer: 64 << 10, SocketBuffer: 64 << 10})
	s := b.Stats()
	if !tellsDrops(&s.Transport) {
		t.Skip("the platform does not tell what it drops")
	}
	msg := pattern.New(1, 256)
	count := uint64(0)
	for end := time.Now().Add(30 * time.Second); count < 50000 || b.Stats().MessagesRefused == 0 && time.Now().Before(end); {
		a.Write(msg)
		count++
	}
	sum := uint64(0)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s = b.Stats()
		sum = s.MessagesReceived + s.MessagesRefused + s.PacketsStale + s.Transport.Drops
		if sum >= count || time.Now().After(end) {
			break
		}
	}
	if sum < count {
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
	msg := pattern.New(1, 256)
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
