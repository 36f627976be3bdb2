package volley

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
	"volley/reliable"
)

// An orderConn is a transport that notes the sequence numbers of what is given
// to it, and lets a test hold whoever gives it.
type orderConn struct {
	*slowConn
	mu        sync.Mutex
	sequences []uint16
}

func (o *orderConn) WriteBatchBy(b *wire.Batch, _ *deadline.Deadline) (int, error) {
	return b.Len(), o.WriteBatch(b)
}

func (o *orderConn) WriteBatch(b *wire.Batch) error {
	o.mu.Lock()
	for i := range b.Len() {
		h, _, err := reliable.ParseHeader(b.At(i))
		if err == nil {
			o.sequences = append(o.sequences, h.Sequence)
		}
	}
	o.mu.Unlock()
	return o.slowConn.WriteBatch(b)
}

func startOn(t *testing.T, dc datagram.Conn) *Conn {
	t.Helper()
	set, err := newSettings(nil, datagram.MaxUDP, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := new(Conn)
	if err := c.start(dc, set); err != nil {
		t.Fatal(err)
	}
	return c
}

// What receiving and ticks have to say while a Write is in the system call
// leaves behind it, and nobody but the Write gives anything to the transport.
func TestAcksLeaveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &orderConn{slowConn: newSlowConn()}
		c := startOn(t, o)
		go c.Write([]byte("held"))
		<-o.sending
		answers := datagram.GetBatch()
		for i := range 200 { // an acknowledgement for each 16 of them
			d := reliable.AppendHeader(nil, reliable.Header{Sequence: uint16(i), Ack: 65535})
			o.handler.HandleBatch(time.Now(), [][]byte{append(d, 'x')}, answers)
		}
		time.Sleep(time.Second)
		o.handler.HandleTick(time.Now(), answers)
		if answers.Len() != 0 {
			t.Errorf("%d datagrams left beside the sender", answers.Len())
		}
		o.mu.Lock()
		if len(o.sequences) != 1 {
			t.Errorf("%d datagrams overtook one that is held", len(o.sequences)-1)
		}
		o.mu.Unlock()
		close(o.gate)
		synctest.Wait()
		o.mu.Lock()
		if len(o.sequences) < 1+200/16 {
			t.Errorf("%d datagrams, want at least %d", len(o.sequences), 1+200/16)
		}
		for i, s := range o.sequences {
			if s != o.sequences[0]+uint16(i) {
				t.Fatalf("datagram %d has the sequence %d", i, s)
			}
		}
		o.mu.Unlock()
		c.Close()
	})
}

// However much is received while a Write hangs, what waits to leave is bounded.
func TestAcksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := slowly(t)
		go c.Write([]byte("held"))
		<-s.sending
		for i := range 60_000 {
			d := reliable.AppendHeader(nil, reliable.Header{Sequence: uint16(i), Ack: 65535})
			s.handler.HandleBatch(time.Now(), [][]byte{append(d, 'x')}, nil)
		}
		c.mu.Lock()
		if n := c.out.Batch(0).Len(); n != 128+2048 {
			t.Errorf("%d datagrams wait, want %d", n, 128+2048)
		}
		c.mu.Unlock()
		close(s.gate)
		synctest.Wait()
		c.Close()
	})
}

// A writer over a lossless pipe waits while the other side's acknowledgements
// cannot leave.
func TestWriterWaitsForAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		b.mu.Lock()
		b.out.AcquireUnlocking(b.out.Patience()) // somebody is about to transmit
		b.mu.Unlock()
		go func() {
			for range 30_000 {
				a.Write([]byte("x"))
				b.ReadMessage(context.Background(), nil)
			}
		}()
		synctest.Wait()
		if n := a.Stats().MessagesSent; n < 64*12 || n > 2*64*16 {
			t.Errorf("%d messages sent while no acknowledgement left, want %d or a few more", n, 64*12)
		}
		b.mu.Lock()
		b.out.ReleaseUnlocking(b.out.Patience())
		b.mu.Unlock()
		time.Sleep(time.Second)
		if s := a.Stats(); s.MessagesSent != 30_000 || s.MessagesDelivered != 30_000 || s.MessagesLost != 0 {
			t.Errorf("%d sent, %d delivered, %d lost, want 30000, 30000, 0", s.MessagesSent, s.MessagesDelivered, s.MessagesLost)
		}
		a.Close()
		b.Close()
	})
}

// A Write over a lossless pipe that waits for room does not hold back what the
// other direction is owed.
func TestAcksBesideBlockedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(&Config{ReadBuffer: 64 << 10})
		go writeUntilError(b) // nobody reads from a
		synctest.Wait()
		for range 1000 {
			a.Write([]byte("x"))
			b.ReadMessage(context.Background(), nil)
		}
		time.Sleep(time.Second)
		if s := a.Stats(); s.MessagesDelivered != 1000 {
			t.Errorf("%d of 1000 messages acknowledged, %d lost", s.MessagesDelivered, s.MessagesLost)
		}
		a.Close()
		b.Close()
	})
}

// A fullConn is a transport whose send buffer is full until it is drained.
type fullConn struct {
	*slowConn
	room    chan struct{} // closed: there is some
	broken  error
	writing chan struct{} // a token for each writer that waits
	mu      sync.Mutex
	sent    int
}

func newFullConn() *fullConn {
	return &fullConn{slowConn: newSlowConn(), room: make(chan struct{}), writing: make(chan struct{}, 100)}
}

func (f *fullConn) WriteBatch(b *wire.Batch) error { _, err := f.WriteBatchBy(b, nil); return err }

func (f *fullConn) WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (int, error) {
	select {
	case f.writing <- struct{}{}:
	default:
	}
	if d == nil {
		<-f.room
	} else {
		passed := d.Arm()
		defer d.Disarm()
		select {
		case <-f.room:
		case <-passed:
			return 0, os.ErrDeadlineExceeded
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent += b.Len()
	return b.Len(), f.broken
}

// A Write that finds the send buffer full returns at its deadline, and with
// Close at once.
func TestWriteDeadlineOfFullSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFullConn()
		c := startOn(t, f)
		begin := time.Now()
		c.SetWriteDeadline(begin.Add(100 * time.Millisecond))
		n, err := c.Write([]byte("x"))
		wantTimeout(t, "Write", err)
		if d := time.Since(begin); n != 0 || d != 100*time.Millisecond {
			t.Errorf("Write = %d after %v, want 0 after 100ms", n, d)
		}
		_, err = c.WriteBatch(nil, [][]byte{{1}, {2}})
		wantTimeout(t, "WriteBatch past the deadline", err)
		c.SetWriteDeadline(time.Time{})
		result := make(chan error)
		go func() {
			_, err := c.Write([]byte("y"))
			result <- err
		}()
		synctest.Wait()
		begin = time.Now()
		c.Close()
		if d := time.Since(begin); d != 0 {
			t.Errorf("Close took %v beside a Write that hangs, want none", d)
		}
		wantErr(t, "Write", <-result, net.ErrClosed)
	})
}

// What Writes are done with leaves all the same, also after the deadline of who
// was about to send it, and Close waits for it a while.
func TestTakenMessagesLeave(t *testing.T) {
	for _, drained := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFullConn()
			c := startOn(t, f)
			c.SetWriteDeadline(time.Now().Add(time.Second))
			go c.Write([]byte("fails"))
			<-f.writing
			for range 10 { // join the queue
				if _, err := c.Write([]byte("taken")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Second)
			if drained {
				close(f.room)
				synctest.Wait()
			}
			begin := time.Now()
			c.Close()
			want := 100 * time.Millisecond
			if drained {
				want = 0
			}
			if d := time.Since(begin); d != want {
				t.Errorf("drained %v: Close took %v, want %v", drained, d, want)
			}
			f.mu.Lock()
			if drained && f.sent < 10 {
				t.Errorf("%d datagrams left, want 10", f.sent)
			}
			f.mu.Unlock()
			synctest.Wait()
		})
	}
}

// Receiving and ticks never wait for room.
func TestReceivingDoesNotWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFullConn()
		c := startOn(t, f)
		begin := time.Now()
		for i := range 100 {
			d := reliable.AppendHeader(nil, reliable.Header{Sequence: uint16(i), Ack: 65535})
			f.handler.HandleBatch(time.Now(), [][]byte{append(d, 'x')}, nil)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("receiving took %v", d)
		}
		close(f.room)
		synctest.Wait()
		if f.sent < 100/16 {
			t.Errorf("%d acknowledgements left, want %d", f.sent, 100/16)
		}
		c.Close()
	})
}

// An error that ends the connection while the queue is sent reaches a later
// Write, once.
func TestErrorOfQueueReachesWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFullConn()
		c := startOn(t, f)
		go c.Write([]byte("x"))
		<-f.writing
		for range 3 {
			if _, err := c.Write([]byte("taken")); err != nil {
				t.Fatal(err)
			}
		}
		broken := errors.New("broken")
		f.mu.Lock()
		f.broken = broken
		f.mu.Unlock()
		close(f.room)
		synctest.Wait()
		f.mu.Lock()
		f.broken = nil
		f.mu.Unlock()
		_, err := c.Write([]byte("told"))
		wantErr(t, "Write", err, broken)
		if _, err := c.Write([]byte("goes on")); err != nil {
			t.Errorf("Write after the error was told: %v", err)
		}
		c.Close()
	})
}
