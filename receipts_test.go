package volley

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/simnet"
)

// The last message before a pause gets its fate too, whatever else the peer
// says meanwhile, and Loss shows an outage.
func TestReceiptOfLastMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{})
		c := dial("10.0.0.2:1", &Dialer{})
		defer c.Close()
		server := accept(t, l)
		defer server.Close()
		c.WriteMessage([]byte("arrives"))
		wantMessage(t, server, "arrives")
		time.Sleep(time.Second)
		n.SetDefault(simnet.Link{Loss: 1})
		last, _ := c.WriteMessage([]byte("does not"))
		time.Sleep(time.Second)
		n.SetDefault(simnet.Link{})
		time.Sleep(idleAfter)
		rs := c.AppendReceipts(nil)
		if len(rs) != 2 || rs[0].Fate != Delivered || rs[1].ID != last || rs[1].Fate != Lost {
			t.Errorf("receipts %+v, want one delivered, and %d lost", rs, last)
		}
		n.SetDefault(simnet.Link{Loss: 1})
		for range 60 * 6 {
			c.Write([]byte("nobody hears"))
			time.Sleep(time.Second / 60)
		}
		if loss := c.Stats().Loss; loss < 0.9 {
			t.Errorf("loss figure %.2f after 6 s without an answer, want nearly 1", loss)
		}
	})
}

// However Close races with writers, each message that was taken has exactly
// one receipt afterwards.
func TestReceiptsWhenClosed(t *testing.T) {
	for round := range 10 {
		a, b := udpPair(t, nil)
		a.AppendReceipts(nil)
		var mu sync.Mutex
		taken := make(map[uint64]bool)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					id, err := a.WriteMessage([]byte("x"))
					if err != nil {
						return
					}
					mu.Lock()
					taken[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Go(func() {
			for {
				if n, err := a.WriteBatch(nil, [][]byte{{1}, {2}, {3}}); err != nil {
					if n < 0 || n > 2 {
						t.Errorf("WriteBatch = %d with an error", n)
					}
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := b.ReadMessage(context.Background(), nil); err != nil {
					return
				}
			}
		})
		seen := make(map[uint64]bool)
		collect := func() {
			for _, r := range a.AppendReceipts(nil) {
				if seen[r.ID] {
					t.Errorf("message %d has two receipts", r.ID)
				}
				seen[r.ID] = true
			}
		}
		for range round {
			collect()
			time.Sleep(100 * time.Microsecond)
		}
		wg.Go(func() { b.Close() })
		a.Close()
		wg.Wait()
		collect()
		s := a.Stats()
		if s.ReceiptsDropped == 0 {
			for id := range taken {
				if !seen[id] {
					t.Errorf("message %d has no receipt", id)
				}
			}
		}
		if n := uint64(len(seen)) + s.ReceiptsDropped; n != s.MessagesSent || s.MessagesDelivered+s.MessagesLost != s.MessagesSent {
			t.Errorf("%d receipts of %d messages, %d delivered and %d lost", n, s.MessagesSent, s.MessagesDelivered, s.MessagesLost)
		}
	}
}

// WaitReceipts returns when a fate is decided, by an acknowledgement or by its
// want, and not before.
func TestWaitReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, dial := network(t, &ListenConfig{})
		// One of the first 64 may follow lost ones of the reference, and is acknowledged at once.
		c := dial("10.0.0.2:1", &Dialer{Config: &Config{firstSequence: startsAt(10_000)}})
		defer c.Close()
		server := accept(t, l)
		defer server.Close()
		begin := time.Now()
		id, err := c.WriteMessage([]byte("arrives"))
		require.NoError(t, err)
		rs, err := c.WaitReceipts(t.Context(), []Receipt{{ID: 99}})
		require.NoError(t, err)
		require.Len(t, rs, 2)
		require.Equal(t, Receipt{ID: 99}, rs[0])
		require.Equal(t, id, rs[1].ID)
		require.Equal(t, Delivered, rs[1].Fate)
		require.Equal(t, 20*time.Millisecond+defaultAckDelay/2, time.Since(begin), "a round trip, and the wait for a message that could tell")

		n.SetDefault(simnet.Link{Loss: 1})
		id, _ = c.WriteMessage([]byte("does not"))
		begin = time.Now()
		rs, err = c.WaitReceipts(t.Context(), rs[:0])
		require.NoError(t, err)
		require.Equal(t, []Receipt{{ID: id, Fate: Lost}}, rs)
		require.Equal(t, 10*time.Second, time.Since(begin).Round(time.Second), "LostAfter")

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n.SetDefault(simnet.Link{})
		begin = time.Now()
		rs, err = c.WaitReceipts(ctx, rs[:0])
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, rs)
		require.Equal(t, time.Minute, time.Since(begin))
		c.Write([]byte("a receipt comes before the end of the context"))
		time.Sleep(time.Second)
		rs, err = c.WaitReceipts(ctx, rs[:0])
		require.NoError(t, err)
		require.Len(t, rs, 1)
	})
}

// The end of a connection makes receipts of all messages and then an error, for
// everybody who waits.
func TestWaitReceiptsEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(a, b *Conn)
		want error
	}{
		"Close":           {func(a, b *Conn) { a.Close() }, net.ErrClosed},
		"the peer closes": {func(a, b *Conn) { b.Close() }, io.ErrClosedPipe},
		"idle timeout":    {func(a, b *Conn) { a.end(ErrIdleTimeout) }, ErrIdleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := Pipe(nil)
				defer a.Close()
				defer b.Close()
				var mu sync.Mutex
				seen := make(map[uint64]bool)
				var wg sync.WaitGroup
				for i := range 5 {
					wg.Go(func() {
						for {
							rs, err := a.WaitReceipts(t.Context(), nil)
							if err != nil {
								wantErr(t, "WaitReceipts", err, test.want)
								return
							}
							mu.Lock()
							for _, r := range rs {
								if seen[r.ID] {
									t.Errorf("message %d has two receipts", r.ID)
								}
								seen[r.ID] = true
							}
							mu.Unlock()
							if i == 0 {
								return // and takes no more
							}
						}
					})
				}
				synctest.Wait()
				for range 3 {
					_, err := a.WriteMessage([]byte("x"))
					require.NoError(t, err)
				}
				test.end(a, b)
				wg.Wait()
				require.Len(t, seen, 3)
				_, err := a.WaitReceipts(t.Context(), nil)
				require.ErrorIs(t, err, test.want)
			})
		})
	}
}

func TestWaitReceiptsRefused(t *testing.T) {
	a, b := Pipe(&Config{Receipts: -1})
	_, err := a.WaitReceipts(t.Context(), nil)
	var ce *ConfigError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, "Config.Receipts", ce.Field)
	a.Close()
	b.Close()
	_, err = a.WaitReceipts(t.Context(), nil)
	require.ErrorIs(t, err, net.ErrClosed)
}

// One goroutine writes and notes the numbers, another one waits for the receipts
// and looks them up. With a lock over both halves of the former, as the document
// of WaitReceipts says, no receipt comes for a number that is not known yet, also
// on a Pipe, where it is there before WriteMessage returns.
func TestReceiptsBesideWriter(t *testing.T) {
	everyConn(t, nil, func(t *testing.T, a, b *Conn) {
		const count = 300
		var mu sync.Mutex
		pending := make(map[uint64]int)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				if _, err := b.ReadMessage(context.Background(), nil); err != nil {
					return
				}
			}
		})
		left := make(chan error, 1)
		wg.Go(func() {
			var rs []Receipt
			for got := 0; got < 2*count; {
				var err error
				if rs, err = a.WaitReceipts(t.Context(), rs[:0]); err != nil {
					left <- err
					return
				}
				mu.Lock()
				for _, r := range rs {
					if _, ok := pending[r.ID]; !ok {
						t.Errorf("a receipt for message %d, whose number is not known", r.ID)
					}
					delete(pending, r.ID)
				}
				mu.Unlock()
				got += len(rs)
			}
			left <- nil
		})
		ids := make([]uint64, 2)
		for i := range count {
			mu.Lock()
			id, err := a.WriteMessage([]byte{1})
			if err == nil {
				pending[id] = i
				_, err = a.WriteBatch(ids, [][]byte{{2}, nil})
				pending[ids[0]] = i
			}
			mu.Unlock()
			if err != nil {
				t.Error(err)
				break
			}
		}
		if err := <-left; err != nil {
			t.Error(err)
		}
		if len(pending) > 0 {
			t.Errorf("%d messages without a receipt", len(pending))
		}
		a.Close()
		b.Close()
		wg.Wait()
	})
}

// WriteBatch sets the numbers of exactly those that get receipts, in order.
func TestWriteBatchIDs(t *testing.T) {
	for name, pipe := range map[string]func() (a, b *Conn){
		"lossless": func() (a, b *Conn) { return Pipe(nil) },
		"network":  func() (a, b *Conn) { return netPipe(0, simnet.Link{Latency: time.Millisecond}, simnet.Link{}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipe()
				defer b.Close()
				defer a.Close()
				read := make(map[string]uint64)
				var wg sync.WaitGroup
				wg.Go(func() {
					for {
						p, id, err := b.ReadMessageID(context.Background(), nil)
						if err != nil {
							return
						}
						read[string(p[:min(len(p), 8)])] = id
					}
				})
				var msgs [][]byte
				for i := range 300 {
					msg := fmt.Appendf(nil, "%08d", i)
					if i%50 == 7 {
						msg = append(msg, make([]byte, 3000)...)
					}
					msgs = append(msgs, msg)
				}
				msgs[0], msgs[150], msgs[299] = nil, nil, nil
				ids := make([]uint64, 301)
				_, err := a.WriteBatch(ids[:299], msgs)
				require.ErrorIs(t, err, io.ErrShortBuffer)
				ids[300] = 77
				n, err := a.WriteBatch(ids, msgs)
				require.NoError(t, err)
				require.Equal(t, 300, n)
				require.EqualValues(t, 77, ids[300])
				tooLarge := [][]byte{nil, []byte("taken"), nil, make([]byte, 20_000), []byte("never")}
				more := make([]uint64, len(tooLarge))
				n, err = a.WriteBatch(more, tooLarge)
				var large *MessageTooLargeError
				require.ErrorAs(t, err, &large)
				require.GreaterOrEqual(t, n, 2)
				require.LessOrEqual(t, n, 3)
				time.Sleep(time.Second)
				receipts := make(map[uint64]bool)
				for _, r := range a.AppendReceipts(nil) {
					receipts[r.ID] = true
				}
				a.Close()
				b.Close()
				wg.Wait()
				for i, msg := range msgs {
					if len(msg) == 0 {
						require.Zero(t, ids[i])
						continue
					}
					require.Equal(t, read[string(msg[:8])], ids[i])
					require.True(t, receipts[ids[i]])
				}
				require.Equal(t, read["taken"], more[1])
				require.Len(t, receipts, 297+1)
				_, err = a.WriteBatch(ids, msgs)
				require.ErrorIs(t, err, net.ErrClosed)
			})
		})
	}
}

func TestReceiptsDoNotAllocate(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	a, b := Pipe(nil)
	defer a.Close()
	defer b.Close()
	buf := make([]byte, 100)
	msgs := [][]byte{{1}, {2}, {3}}
	ids := make([]uint64, len(msgs))
	var rs []Receipt
	round := func() {
		a.WriteBatch(ids, msgs)
		for range msgs {
			b.Read(buf)
		}
		for n := 0; n < len(ids); n += len(rs) {
			b.Write(buf)
			a.Read(buf)
			rs, _ = a.WaitReceipts(t.Context(), rs[:0])
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n >= 1 {
		t.Errorf("%v allocations for three messages and their receipts", n)
	}
}
