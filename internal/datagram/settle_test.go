package datagram

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
)

// settling is a Mux on a steppedSocket that counts calls of Settle.
func settling(accepts bool) (*Mux, *steppedSocket, *atomic.Int32) {
	s, calls := newSteppedSocket(), new(atomic.Int32)
	cfg := MuxConfig{MaxDatagram: 1000, Settle: func() { calls.Add(1) }}
	if accepts {
		cfg.Acceptor = &fakeAcceptor{}
	}
	return NewMux(s, cfg), s, calls
}

// Who has read a socket settles before it reads again, and not before: it may
// answer meanwhile.
func TestMuxSettlesBeforeTheNextRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, calls := settling(true)
		var d deadline.Deadline
		for i := range int32(5) {
			s.push(from(peerAddr(1), "x")...)
			require.True(t, m.Inline().ReadInline(&d, noReaders{}))
			require.Equal(t, i+1, calls.Load(), "settled at the begin of each read, and never after it")
		}
		endMux(m)
	})
}

// Where the reader stays away, the goroutine that takes its place settles, and
// where there is none as nothing comes, whoever looks after that.
func TestMuxSettlesWithoutReader(t *testing.T) {
	for name, accepts := range map[string]bool{"behind": true, "asleep": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s, calls := settling(accepts)
				m.Start()
				var d deadline.Deadline
				if !accepts {
					p, err := m.Dial(peerAddr(1))
					require.NoError(t, err)
					require.NoError(t, p.Attach(new(fakeHandler)))
					defer p.Close()
				}
				for read := false; !read; {
					s.push(from(peerAddr(1), "x")...)
					read = m.Inline().ReadInline(&d, noReaders{})
					synctest.Wait() // the goroutine makes place
				}
				before := calls.Load()
				time.Sleep(inlinePatience + time.Millisecond)
				synctest.Wait()
				require.Greater(t, calls.Load(), before)

				// Then packets are settled as they come.
				for range 3 {
					before = calls.Load()
					s.push(from(peerAddr(1), "x")...)
					synctest.Wait()
					require.Greater(t, calls.Load(), before)
				}
				endMux(m)
			})
		})
	}
}

// endMux closes a Mux and its Conns.
func endMux(m *Mux) {
	m.Close()
	m.mu.Lock()
	var peers []*Peer
	for p := range m.allLocked() {
		peers = append(peers, p)
	}
	m.mu.Unlock()
	for _, p := range peers {
		p.Close()
	}
}

// Where callers wait while another one reads, the goroutine that reads on for them
// settles before it does: nobody may come back.
func TestMuxSettlesForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, calls := settling(true)
		var d deadline.Deadline
		s.push(from(peerAddr(1), "x")...)
		require.True(t, m.Inline().ReadInline(&d, waitingReaders{}))
		synctest.Wait()
		require.EqualValues(t, 2, calls.Load(), "before the read, and before the next one")
		endMux(m)
	})
}
