package volley

import (
	"sync"
	"testing"
	"time"
)

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
				if n, err := a.WriteBatch([][]byte{{1}, {2}, {3}}); err != nil {
					if n < 0 || n > 2 {
						t.Errorf("WriteBatch = %d with an error", n)
					}
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := b.ReadMessage(nil); err != nil {
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
