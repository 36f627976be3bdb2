package secure

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/handover"
	"volley/simnet"
)

// hosts are the servers of a network, by their addresses.
type hosts struct {
	at   sync.Map
	away atomic.Bool // nothing comes through
}

// add starts one more.
func (hs *hosts) add(t *testing.T, w *world, address string, lc *ListenConfig) *Listener {
	t.Helper()
	at := &world{net: w.net, where: address, latency: w.latency, tokens: make(chan net.Conn), closed: make(chan struct{})}
	at.closeTCP = sync.OnceFunc(func() { close(at.closed) })
	hs.at.Store(address, at)
	lc.dialTCP = hs.dialTCP
	return at.listen(t, lc)
}

func (hs *hosts) dialTCP(ctx context.Context, _, address string) (net.Conn, error) {
	at, ok := hs.at.Load(address)
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	for wait := time.Second; hs.away.Load(); wait *= 2 { // as packets of TCP are repeated
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return at.(*world).dialTCP(ctx, "10.0.1.1:4000")
}

func (hs *hosts) dialer(w *world) *Dialer {
	d := w.dialer()
	d.dialTCP = hs.dialTCP
	return d
}

// give gives the client of a session a token for another server.
func give(t *testing.T, from *Listener, c *Conn, to *Listener) {
	t.Helper()
	s := &seat{c, from}
	ticket, err := s.Ticket(nil)
	require.NoError(t, err)
	spare, err := (*server)(to).Seal(c.session, ticket, to.Addr().String())
	require.NoError(t, err)
	s.Give(spare)
}

// die takes servers with their sessions away, and tells nobody.
func (hs *hosts) die(w *world, link simnet.Link, all ...*Listener) {
	w.net.SetDefault(simnet.Link{Loss: 1})
	for _, l := range all {
		hs.at.Delete(l.Addr().String())
		for s := range l.Conns() {
			s.Close()
		}
		l.Close()
	}
	time.Sleep(10 * time.Millisecond)
	w.net.SetDefault(link)
}

// join has servers tell each other of sessions, as nodes of a fleet do.
func join(all ...*Listener) {
	generation := func(l *Listener, id sessionID) (g uint64) {
		for c := range l.all() {
			if c.session == id {
				_, g = (&seat{c, l}).ID()
			}
		}
		return g
	}
	for _, from := range all {
		(*server)(from).Watch(func(e handover.Event) {
			if e.Kind == handover.Wants {
				to := all[rand.IntN(len(all))]
				ticket, err := e.Conn.Ticket(nil)
				if err != nil || to == from {
					return
				}
				if spare, err := (*server)(to).Seal(e.Session, ticket, to.Addr().String()); err == nil {
					time.AfterFunc(2*time.Millisecond, func() { e.Conn.Give(spare) })
				}
				return
			}
			time.AfterFunc(2*time.Millisecond, func() {
				for _, to := range all {
					if to == from {
						continue
					}
					there := generation(to, e.Session)
					switch e.Kind {
					case handover.Begun, handover.Moved:
						if there > e.Generation {
							(*server)(from).Yield(e.Session, there)
						} else if e.Generation > 1 {
							(*server)(to).Yield(e.Session, e.Generation)
						}
					case handover.Over:
						if there <= e.Generation {
							(*server)(to).Yield(e.Session, math.MaxUint64)
						}
					}
				}
			})
		})
	}
}

// echoAll answers the messages of all sessions of a server until that ends.
func echoAll(l *Listener) {
	for {
		s, err := l.AcceptConn(context.Background())
		if err != nil {
			return
		}
		go echo(s)
	}
}

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
		go echoAll(l)
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
