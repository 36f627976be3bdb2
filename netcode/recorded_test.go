package netcode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"volley/simnet"
)

// A tap is a socket that records what is sent through it.
type tap struct {
	net.PacketConn
	mute atomic.Bool // what the owner sends is lost
	mu   sync.Mutex
	sent [][]byte
}

func (p *tap) WriteTo(b []byte, to net.Addr) (int, error) {
	if p.mute.Load() {
		return len(b), nil
	}
	p.mu.Lock()
	p.sent = append(p.sent, bytes.Clone(b))
	p.mu.Unlock()
	return p.PacketConn.WriteTo(b, to)
}

func (p *tap) recorded() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]byte(nil), p.sent...)
}

func (p *tap) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = nil
}

// A theatre is a server and a client whose traffic is recorded, and somebody
// at another address.
type theatre struct {
	t        *testing.T
	net      *simnet.Network
	rng      *rand.Rand
	listener *Listener
	up, down *tap // the sockets of client and server
	stranger net.PacketConn
}

const simClient = "10.0.1.1:4000"

func newTheatre(t *testing.T, n *simnet.Network) *theatre {
	t.Helper()
	th := &theatre{t: t, net: n, rng: rand.New(rand.NewPCG(3, 4))}
	th.up, th.stranger = &tap{PacketConn: th.socket(simClient)}, th.socket("10.0.2.2:4000")
	th.start()
	return th
}

func (th *theatre) socket(addr string) net.PacketConn {
	th.t.Helper()
	pc, err := th.net.Listen(addr)
	if err != nil {
		th.t.Fatal(err)
	}
	return pc
}

// start starts the server, anew if there was one.
func (th *theatre) start() {
	th.t.Helper()
	th.down = &tap{PacketConn: th.socket(simServer)}
	lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol}
	var err error
	if th.listener, err = lc.ListenOn(th.down); err != nil {
		th.t.Fatal(err)
	}
}

// replay sends datagrams three times over, in random order each time, and
// waits until they have been dealt with. All that leave from belong to them.
func (th *theatre) replay(ds [][]byte, to string, from ...net.PacketConn) {
	addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))
	for range 3 {
		for _, i := range th.rng.Perm(len(ds)) {
			for _, pc := range from {
				pc.WriteTo(ds[i], addr)
			}
		}
		synctest.Wait()
	}
}

// wantSilence checks that a socket has got nothing.
func (th *theatre) wantSilence(when string, pc net.PacketConn) {
	th.t.Helper()
	pc.SetReadDeadline(time.Now().Add(time.Second))
	var b [2000]byte
	if n, from, err := pc.ReadFrom(b[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		th.t.Errorf("%s: %v got %d bytes from %v, %v, want silence", when, pc.LocalAddr(), n, from, err)
	}
}

// wantNobody checks that a server has no sessions, has said nothing, and that
// what it was sent was dropped.
func (th *theatre) wantNobody(when string, accepted uint64, reasons ...dropReason) {
	th.t.Helper()
	s := th.listener.Stats()
	if s.Conns != 0 || s.Handshakes != 0 || s.Accepted != accepted {
		th.t.Errorf("%s: %d sessions, %d handshakes, %d accepted, want none but %d",
			when, s.Conns, s.Handshakes, s.Accepted, accepted)
	}
	for _, r := range reasons {
		if s.Drops[r.String()] == 0 {
			th.t.Errorf("%s: nothing dropped for %v but %v", when, r, s.Drops)
		}
	}
}

// talk sends payloads both ways, all of which arrive.
func talk(t *testing.T, client, server *Conn, name string) {
	t.Helper()
	for i := range 100 {
		up, down := fmt.Sprintf("%s up %d", name, i), fmt.Sprintf("%s down %d", name, i)
		client.Write([]byte(up))
		wantRead(t, server, up)
		server.Write([]byte(down))
		wantRead(t, client, down)
	}
}

// wantQuiet checks that nothing is there to be read.
func wantQuiet(t *testing.T, when string, cs ...*Conn) {
	t.Helper()
	for _, c := range cs {
		c.SetReadDeadline(time.Now())
		var b [MaxMessageSize]byte
		if n, err := c.Read(b[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: Read = %q, %v, want nothing", when, b[:n], err)
		}
		c.SetReadDeadline(time.Time{})
	}
}

// TestReplayThroughListener: all datagrams of a session between Dial and a
// Listener are sent again three times in random order, from the same addresses
// and from others; while the session lives, while its client is gone, after its
// end, and after a restart of the server. Nothing is delivered twice, the life
// of the session is not prolonged, and nobody is admitted or gets an answer.
func TestReplayThroughListener(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		th := newTheatre(t, n)
		var d Dialer
		client, err := d.DialOn(t.Context(), th.up, simToken(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		server, err := th.listener.AcceptConn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		talk(t, client, server, "first")
		time.Sleep(time.Second) // keep alives

		before := th.listener.Stats()
		th.replay(th.up.recorded(), simServer, th.up.PacketConn, th.stranger)
		th.replay(th.down.recorded(), simClient, th.down.PacketConn, th.stranger)
		wantQuiet(t, "while it lives", client, server)
		th.wantSilence("while it lives", th.stranger)
		after := th.listener.Stats()
		if after.Conns != 1 || after.Accepted != 1 || after.Challenges != before.Challenges || after.Handshakes != 0 || after.Tokens != 1 {
			t.Errorf("the replay has changed the server: %+v, then %+v", before, after)
		}
		if s := server.Stats(); s.MessagesReceived != 100 || s.Drops[dropReplay.String()] < 300 {
			t.Errorf("server's Stats() = %+v", s)
		}
		if s := client.Stats(); s.MessagesReceived != 100 || s.Drops[dropReplay.String()] < 300 {
			t.Errorf("client's Stats() = %+v", s)
		}
		talk(t, client, server, "second")

		// Without the client the session times out, whatever is replayed.
		th.up.mute.Store(true)
		for start := time.Now(); time.Since(start) < 4*time.Second; time.Sleep(time.Second) {
			th.replay(th.up.recorded(), simServer, th.up.PacketConn)
		}
		if th.listener.Stats().Conns != 1 {
			t.Error("the session has ended before its timeout")
		}
		time.Sleep(1200 * time.Millisecond)
		if _, err := server.Read(make([]byte, 9)); !errors.Is(err, ErrIdleTimeout) {
			t.Errorf("Read: %v, want ErrIdleTimeout: the replay has kept the session alive", err)
		}
		client.Close()

		ghost := th.socket(simClient)
		th.down.forget()
		th.replay(th.up.recorded(), simServer, ghost, th.stranger)
		th.wantNobody("after its end", 1, dropTokenUsed)
		th.wantSilence("after its end", ghost)
		th.wantSilence("after its end", th.stranger)

		th.listener.Close()
		th.start()
		for range 3 { // within the token's lifetime, and after it
			th.replay(th.up.recorded(), simServer, ghost, th.stranger)
			th.wantNobody("after a restart", 0, dropTokenTooOld)
			th.wantSilence("after a restart", ghost)
			th.wantSilence("after a restart", th.stranger)
			time.Sleep(12 * time.Second)
		}
		th.wantNobody("after a restart", 0, dropTokenTooOld, dropTokenExpired)
		if sent := th.down.recorded(); len(sent) != 0 {
			t.Errorf("the server has sent %d datagrams to nobody", len(sent))
		}
		closeAll(th.listener, ghost, th.stranger)
	})
}

// TestTokenAgainThroughDial: copies of a used token, from the client's address
// and others, during its session, after it and after a restart, admit nobody.
// Of two that race with one token, one gets in.
func TestTokenAgainThroughDial(t *testing.T) {
	bubble(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		th := newTheatre(t, n)
		th.up.Close()
		wire, err := simToken(t, 1).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		dial := func(from string) (*Conn, error) {
			tok, err := parseToken(wire) // a copy: Dial refuses to use one twice
			if err != nil {
				t.Fatal(err)
			}
			var d Dialer
			return d.DialOn(t.Context(), th.socket(from), tok)
		}
		wantRefused := func(when, from string, reason dropReason) {
			t.Helper()
			var he *HandshakeError
			before := th.listener.Stats()
			if _, err := dial(from); !errors.As(err, &he) || he.Err != errNoAnswer {
				t.Errorf("%s, from %s: %v, want no answer", when, from, err)
			}
			after := th.listener.Stats()
			if after.Drops[reason.String()] == before.Drops[reason.String()] || after.Accepted != before.Accepted || after.Challenges != before.Challenges {
				t.Errorf("%s, from %s: %+v, want drops for %v only", when, from, after, reason)
			}
		}

		conns := make(chan *Conn, 2)
		for _, from := range []string{simClient, "10.0.3.3:4000"} {
			go func() {
				c, err := dial(from)
				if err != nil {
					c = nil
				}
				conns <- c
			}()
		}
		client, server := <-conns, (*Conn)(nil)
		if client == nil {
			t.Fatal("the first to get an end was refused")
		}
		if server, err = th.listener.AcceptConn(t.Context()); err != nil {
			t.Fatal(err)
		}
		talk(t, client, server, "race")
		wantRefused("during the session", "10.0.2.3:4000", dropIDConnected)
		if second := <-conns; second != nil || th.listener.Stats().Accepted != 1 {
			t.Errorf("both got in: %+v", th.listener.Stats())
		}
		talk(t, client, server, "alone")

		same := client.LocalAddr().String()
		client.Close()
		server.Close()
		time.Sleep(100 * time.Millisecond)
		wantRefused("after the session", same, dropTokenUsed)
		wantRefused("after the session", "10.0.2.4:4000", dropTokenUsed)

		th.listener.Close()
		th.start()
		wantRefused("after a restart", same, dropTokenTooOld)
		wantRefused("after a restart", "10.0.2.5:4000", dropTokenTooOld)
		time.Sleep(30 * time.Second)
		if _, err := dial(same); err == nil {
			t.Error("an expired token admits")
		}
		closeAll(th.listener, th.stranger)
	})
}
