package volley

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
