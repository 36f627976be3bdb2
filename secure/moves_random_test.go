package secure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/handover"
	"volley/internal/testenv"
	"volley/simnet"
)

// A trio is three servers of a fleet, which echo, and a client that writes every 50 ms, and that has
// one session after the other.
type trio struct {
	w       *world
	hs      *hosts
	random  *rand.Rand
	servers []*Listener
	stop    func()

	mu     sync.Mutex
	client *Conn
	last   time.Time // when an answer came
	moved  int       // sessions that followed others
	anew   int       // sessions that did not
	err    error     // of Next
}

var trioClient = netip.MustParseAddr("10.0.1.1")

func newTrio(t *testing.T, w *world, seed uint64) *trio {
	f := &trio{w: w, hs: new(hosts), random: rand.New(rand.NewPCG(seed, 0))}
	key := filepath.Join(t.TempDir(), "key")
	for i := range 3 {
		l := f.hs.add(t, w, fmt.Sprintf("10.0.0.%d:7777", i+1), &ListenConfig{KeyFile: key})
		f.servers = append(f.servers, l)
		go func() {
			for {
				s, err := l.AcceptConn(context.Background())
				if err != nil {
					return
				}
				go echo(s)
			}
		}()
	}
	join(f.servers...)
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	f.client, err = f.hs.dialer(w).Dial(ctx, f.servers[0].URL("10.0.0.1"))
	require.NoError(t, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		f.talk(ctx)
	}()
	f.stop = func() {
		cancel()
		f.now().Close()
		<-over
		time.Sleep(time.Second)
		for _, l := range f.servers {
			require.NoError(t, l.Close())
		}
		time.Sleep(2 * time.Second)
	}
	return f
}

// now returns the session of now.
func (f *trio) now() *Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.client
}

func (f *trio) talk(ctx context.Context) {
	for {
		c := f.now()
		go func() {
			for b := make([]byte, 100); ; {
				if _, err := c.Read(b); err != nil {
					return
				}
				f.mu.Lock()
				f.last = time.Now()
				f.mu.Unlock()
			}
		}()
		for c.Err() == nil && ctx.Err() == nil {
			c.Write([]byte("hello"))
			time.Sleep(50 * time.Millisecond)
		}
		next, err := c.Next(ctx)
		f.mu.Lock()
		switch {
		case err != nil:
			f.err = err
		case c.Err() == ErrMoved:
			f.moved++
		default:
			f.anew++
		}
		if err == nil {
			f.client = next
		}
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// setLink sets the links between the client and a server, in one direction or in both.
func (f *trio) setLink(server int, link simnet.Link, up, down bool) {
	at := netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", 1+server))
	if up {
		f.w.net.SetLink(trioClient, at, link)
	}
	if down {
		f.w.net.SetLink(at, trioClient, link)
	}
}

func (f *trio) setLinks(link simnet.Link) {
	for i := range f.servers {
		f.setLink(i, link, true, true)
	}
}

// check checks that the client has its session, and that no server has another one.
func (f *trio) check(t *testing.T, seed uint64) (moved, anew int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NoError(t, f.err, "seed %d", seed)
	require.LessOrEqual(t, time.Since(f.last), 200*time.Millisecond, "seed %d", seed)
	conns := 0
	for _, l := range f.servers {
		conns += l.Stats().Conns
	}
	require.Equal(t, 1, conns, "seed %d", seed)
	return f.moved, f.anew
}

var goodLink = simnet.Link{Latency: 5 * time.Millisecond}

// The links between a client and three servers break, and become slow and fast, at any time, so
// that each step of a move meets each step of others. The client always has a session in the end.
func TestMovesAtRandom(t *testing.T) {
	moved, anew := 0, 0
	for seed := range uint64(testenv.Sized(30, 3000)) {
		inWorld(t, goodLink, func(t *testing.T, w *world) {
			f := newTrio(t, w, seed)
			defer f.stop()
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
				time.Sleep(time.Duration(f.random.Int64N(int64(time.Second))))
				link := simnet.Link{Latency: time.Duration(1+f.random.IntN(1<<f.random.IntN(10))) * time.Millisecond}
				if f.random.IntN(2) == 0 {
					link.Loss = 1
				}
				f.setLink(f.random.IntN(3), link, f.random.IntN(3) > 0, f.random.IntN(3) > 0)
			}
			f.setLinks(goodLink)
			time.Sleep(40 * time.Second)
			m, a := f.check(t, seed)
			moved, anew = moved+m, anew+a
		})
	}
	t.Logf("%d moves, %d sessions anew", moved, anew)
}

// A client that has moved once, and whose network is away for some seconds later, reaches its own
// server and another one again at the same moment. Its session goes on at one of them.
func TestOutageOfClient(t *testing.T) {
	for seed := range uint64(testenv.Sized(50, 2000)) {
		inWorld(t, goodLink, func(t *testing.T, w *world) {
			f := newTrio(t, w, seed)
			defer f.stop()
			time.Sleep(2*time.Second + time.Duration(f.random.Int64N(int64(100*time.Second))))
			if seed%2 == 1 {
				for c := range f.servers[0].all() {
					(&seat{c, f.servers[0]}).Go(true)
				}
				time.Sleep(2 * time.Second)
				moved, _ := f.check(t, seed)
				require.Equal(t, 1, moved)
			}
			c := f.now()
			require.NoError(t, c.Rebind(t.Context()))
			c.roamer.mu.Lock()
			require.Zero(t, c.roamer.shown)
			c.roamer.mu.Unlock()
			time.Sleep(time.Second + time.Duration(f.random.Int64N(int64(100*time.Second))))
			f.setLinks(simnet.Link{Loss: 1})
			f.hs.away.Store(true)
			time.Sleep(time.Second + time.Duration(f.random.Int64N(int64(8*time.Second))))
			f.hs.away.Store(false)
			f.setLinks(goodLink)
			time.Sleep(40 * time.Second)
			_, anew := f.check(t, seed)
			require.Zero(t, anew, "seed %d", seed)
		})
	}
}

// A token of a session that has gone elsewhere since the client's request makes no session.
func TestTokenOfSessionThatLeaves(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 100 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		time.Sleep(time.Second)
		s, ok := client.roamer.takeSpare()
		require.True(t, ok)
		time.AfterFunc(250*time.Millisecond, func() { // between the challenge and the answer to it
			handover.Of(l).Yield(server.session, 100)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, client.roamer.moveBySpare(ctx, &s), context.DeadlineExceeded)
		require.NoError(t, client.Err())
		client.Close()
		require.NoError(t, l.Close())
	})
}

// A client hears no end of its session by a token that was overtaken.
func TestOvertakenToken(t *testing.T) {
	inWorld(t, goodLink, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		defer client.Close()
		require.True(t, (*accepted)(l).move(server.Conn, &ticket{session: sessionID{1}, generation: 7}))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, client.Err())
		client.Close()
		require.NoError(t, l.Close())
	})
}
