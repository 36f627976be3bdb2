package stacktest

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/secure"
)

// A fateBook notes which messages the servers of a test have read, and their fates.
type fateBook struct {
	mu        sync.Mutex
	read      map[uint64]int
	delivered []uint64 // as the clients have been told
	lost      int
}

// settle notes a fate.
func (b *fateBook) settle(n uint64, fate volley.Fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fate == volley.Delivered {
		b.delivered = append(b.delivered, n)
	} else {
		b.lost++
	}
}

// serve reads the connections of a listener until that is closed.
func (b *fateBook) serve(l *volley.Listener, wg *sync.WaitGroup) {
	for {
		c, err := l.AcceptConn(context.Background())
		if err != nil {
			return
		}
		wg.Go(func() {
			for {
				msg, err := c.ReadMessage(context.Background(), nil)
				if err != nil {
					return
				}
				b.mu.Lock()
				b.read[binary.LittleEndian.Uint64(msg)]++
				b.mu.Unlock()
			}
		})
	}
}

// When a server sends its clients away, each of their messages has one fate, what is Delivered was
// read, and none is read twice, by either server.
func TestDrainKeepsFates(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	var inner [2]*secure.Listener
	var listeners [2]*volley.Listener
	book := fateBook{read: make(map[uint64]int)}
	var readers sync.WaitGroup
	for i := range inner {
		l, err := secure.Listen("udp4", "127.0.0.1:0", &secure.ListenConfig{KeyFile: key})
		require.NoError(t, err)
		inner[i], listeners[i] = l, newListener(l, nil)
		readers.Go(func() { book.serve(listeners[i], &readers) })
	}
	const clients = 20
	results := make(chan error, clients)
	stop := make(chan struct{})
	for n := range uint64(clients) {
		session := secureDial(t, inner[0])
		go func() { results <- talkOn(session, n<<32, &book, stop) }()
	}
	time.Sleep(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, inner[0].Drain(ctx, inner[1].URL("127.0.0.1"), nil))
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, clients, inner[1].Stats().Conns)
	close(stop)
	for range clients {
		require.NoError(t, <-results)
	}
	for i := range listeners {
		require.NoError(t, listeners[i].Shutdown(ctx))
	}
	readers.Wait()
	for n, times := range book.read {
		require.Equal(t, 1, times, "message %x", n)
	}
	for _, n := range book.delivered {
		require.Equal(t, 1, book.read[n], "message %x", n)
	}
	t.Logf("%d delivered, %d lost", len(book.delivered), book.lost)
	require.Greater(t, len(book.delivered), clients*30)
}

// talkOn writes messages with numbers from a base on, over a session and those that follow it, and
// checks their fates at the end of each.
func talkOn(session *secure.Conn, base uint64, book *fateBook, stop chan struct{}) error {
	for {
		c, err := volley.NewConn(session, nil)
		if err != nil {
			return err
		}
		ids, stopped := make(map[uint64]uint64), false
		for !stopped {
			id, err := c.WriteMessage(binary.LittleEndian.AppendUint64(nil, base))
			if id != 0 { // it has a receipt, even with an error
				ids[id] = base
				base++
			}
			if err != nil {
				break
			}
			select {
			case <-stop:
				stopped = true
			case <-time.After(5 * time.Millisecond):
			}
		}
		if stopped {
			time.Sleep(300 * time.Millisecond) // for the last acknowledgements
		}
		c.Close()
		for _, r := range c.AppendReceipts(nil) {
			n, ok := ids[r.ID]
			if !ok {
				return errors.New("a second fate")
			}
			delete(ids, r.ID)
			book.settle(n, r.Fate)
		}
		if len(ids) > 0 {
			return errors.New("messages without a fate")
		}
		if stopped {
			return nil
		}
		if session, err = session.Next(context.Background()); err != nil {
			return err
		}
	}
}
