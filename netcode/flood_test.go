package netcode

import (
	"bytes"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/socket"
	"volley/internal/testenv"
)

// A fakeSocket is a socket whose other side is the test.
type fakeSocket struct {
	in   chan []socket.Packet
	done chan struct{}
	once sync.Once
	bufs [2][]byte // of the last put and the one before, which may be in use
	next int

	mu  sync.Mutex
	out map[netip.AddrPort][][]byte // nil: what is sent goes nowhere
}

func newFakeSocket() *fakeSocket {
	return &fakeSocket{in: make(chan []socket.Packet), done: make(chan struct{}), out: make(map[netip.AddrPort][][]byte)}
}

func (s *fakeSocket) ReadBatch(ps []socket.Packet) (int, error) {
	select {
	case in := <-s.in:
		return copy(ps, in), nil
	case <-s.done:
		return 0, net.ErrClosed
	}
}

func (s *fakeSocket) Stats() socket.Stats       { return socket.Stats{} }
func (s *fakeSocket) Features() socket.Features { return socket.Features{} }

func (s *fakeSocket) WriteBatch(ps []socket.Packet) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		for b := p.Buf; s.out != nil && len(b) > 0; {
			n := len(b)
			if p.Segment > 0 {
				n = min(n, p.Segment)
			}
			s.out[p.Addr] = append(s.out[p.Addr], bytes.Clone(b[:n]))
			b = b[n:]
		}
	}
	return len(ps), nil
}

func (s *fakeSocket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(testServerAddr) }

func (s *fakeSocket) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// put delivers a datagram; it has been handled once the next put returns.
func (s *fakeSocket) put(from netip.AddrPort, b []byte) {
	s.next ^= 1
	s.bufs[s.next] = append(s.bufs[s.next][:0], b...)
	s.in <- []socket.Packet{{Buf: s.bufs[s.next], Addr: from}}
}

// sent takes what has been sent to an address.
func (s *fakeSocket) sent(to netip.AddrPort) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	ds := s.out[to]
	delete(s.out, to)
	return ds
}

// keep ends discard.
func (s *fakeSocket) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = make(map[netip.AddrPort][][]byte)
}

// discard makes everything that is sent go nowhere.
func (s *fakeSocket) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = nil
}

func listenFake(t *testing.T, sock socket.Socket, clients int) *Listener {
	t.Helper()
	lc := ListenConfig{
		PrivateKey: testKey, ProtocolID: testProtocol, MaxClients: clients,
		Config: &Config{KeepAlive: time.Hour},
	}
	l, err := lc.newListener()
	if err == nil {
		err = l.serve(listen.PortOf(sock), lc.PrivateKey)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.core.clock = func() time.Duration { return 0 } // clients ask once, and the machine may be slow
	l.mu.Unlock()
	return l
}

// connectFake connects a client through the socket.
func connectFake(t *testing.T, sock *fakeSocket, from netip.AddrPort, c *client) {
	t.Helper()
	now := time.Now()
	for range 2 {
		for _, b := range clientSends(c, now) {
			sock.put(from, b)
		}
		sock.put(testServerAddr, nil) // a stranger; what came before is done
		for _, b := range sock.sent(from) {
			c.receive(now, testServerAddr, b)
		}
	}
	if c.state != stateConnected {
		t.Fatalf("client is %v", c.state)
	}
}

// TestDropFlood: requests that come faster than a server gives time to are counted, all
// of them.
func TestDropFlood(t *testing.T) {
	sock := newFakeSocket()
	l := listenFake(t, sock, 4)
	defer l.Close()
	forged := make([]byte, requestSize)
	putRequest(forged, issueAt(t, time.Now(), 1))
	forged[500] ^= 1
	var ps []socket.Packet
	for i := range 8 {
		ps = append(ps, socket.Packet{Buf: forged, Addr: clientAddr(i)})
	}
	n := uint64(0)
	for l.Stats().Drops[dropFlood.String()] == 0 {
		for range 100 {
			sock.in <- ps
			n += 8
		}
	}
	sock.put(testServerAddr, nil) // a stranger; what came before is done
	sock.put(testServerAddr, nil)
	s := l.Stats()
	require.GreaterOrEqual(t, total(s.Drops), n)
	require.LessOrEqual(t, total(s.Drops), n+2)
	require.EqualValues(t, n-s.Drops[dropFlood.String()], s.Drops[dropTokenDecrypt.String()])
}

// TestListenerFlood: 10^6 garbage datagrams from 10^5 addresses through a
// whole Listener, with -full those of ten minutes at 100,000 a second from 10^7
// addresses. See TestGarbageFlood for the core.
func TestListenerFlood(t *testing.T) {
	const live = 1000
	sources, datagrams := testenv.Sized(100_000, 10_000_000), testenv.Sized(scaled(1_000_000), 60_000_000)
	sock := newFakeSocket()
	l := listenFake(t, sock, live)
	defer l.Close()
	is := testIssuer()
	is.Timeout = time.Hour
	var clients [live]*client
	var conns [live]*Conn
	for i := range live {
		tok, _ := is.Issue(uint64(i), nil)
		clients[i] = newTestClient(time.Now(), tok)
		connectFake(t, sock, clientAddr(i), clients[i])
		conns[i], _ = l.AcceptConn(t.Context())
	}
	sock.discard()
	g := newGarbler(t, 6)
	flood := func(n int) {
		for range n {
			sock.put(clientAddr(g.rng.IntN(sources)), g.next())
		}
		sock.put(testServerAddr, nil)
	}
	flood(1000)
	before, goroutines := heapInUse(), testenv.Goroutines()
	flood(datagrams)
	if after := heapInUse(); after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	s := l.Stats()
	if n := fewGoroutines(goroutines); n > goroutines || s.Conns != live || s.Handshakes != 0 {
		t.Errorf("%d goroutines and %+v, want %d", n, s, goroutines)
	}
	if n := total(s.Drops); n < uint64(datagrams) {
		t.Errorf("%d drops counted", n)
	}
	sock.keep()
	for i, c := range clients {
		out := datagram.GetBatch()
		c.sendPayload(time.Now(), []byte("up"), out)
		sock.put(clientAddr(i), bytes.Clone(out.At(0)))
		datagram.PutBatch(out)
		wantRead(t, conns[i], "up")
		conns[i].Write([]byte("down"))
		got := false
		for _, b := range sock.sent(clientAddr(i)) {
			got = c.receive(time.Now(), testServerAddr, b) != nil || got
		}
		if !got {
			t.Fatalf("session %d is dead", i)
		}
		conns[i].Close()
	}
}

// TestListenerMemory: an idle session costs a server at most 6 KiB. In virtual
// time none is over, however long it takes to make them.
func TestListenerMemory(t *testing.T) { synctest.Test(t, listenerMemory) }

func listenerMemory(t *testing.T) {
	const n = 10_000
	sock := newFakeSocket()
	l := listenFake(t, sock, n)
	clients := make([]*client, n)
	conns := make([]*Conn, n)
	for i := range clients {
		tok, _ := testIssuer().Issue(uint64(i), nil)
		clients[i] = newTestClient(time.Now(), tok)
	}
	before := heapInUse()
	for i, c := range clients {
		connectFake(t, sock, clientAddr(i), c)
		conns[i], _ = l.AcceptConn(t.Context())
		out := datagram.GetBatch()
		c.sendPayload(time.Now(), []byte("up"), out)
		sock.put(clientAddr(i), bytes.Clone(out.At(0)))
		datagram.PutBatch(out)
		wantRead(t, conns[i], "up")
	}
	if s := l.Stats(); s.Conns != n {
		t.Fatalf("%d sessions, want %d", s.Conns, n)
	}
	per := int(heapInUse()-before) / n
	t.Logf("%d bytes a session", per)
	if per > 6<<10 && !testenv.Race {
		t.Errorf("%d bytes a session, want at most 6144", per)
	}
	runtime.KeepAlive(clients)
	l.Close()
	for _, c := range conns {
		c.Close()
	}
}
