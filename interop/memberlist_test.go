package interop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
)

// A transport is that of a member: its packets are messages of a net.PacketConn,
// its streams TCP on the same port.
type transport struct {
	packets  net.PacketConn
	streams  net.Listener
	packetCh chan *memberlist.Packet
	streamCh chan net.Conn
	sent     atomic.Int64
	quit     chan struct{}
}

func newTransport(t *testing.T) *transport {
	t.Helper()
	packets, streams := samePort(t)
	tr := &transport{
		packets:  packets,
		streams:  streams,
		packetCh: make(chan *memberlist.Packet),
		streamCh: make(chan net.Conn),
		quit:     make(chan struct{}),
	}
	go tr.readPackets()
	go tr.acceptStreams()
	return tr
}

// samePort listens for messages and for streams on one port.
func samePort(t *testing.T) (packets net.PacketConn, streams net.Listener) {
	t.Helper()
	var err error
	for range 20 { // somebody else may have the port for streams
		packets = listenPacket(t, "127.0.0.1:0")
		if streams, err = net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, streams
		}
	}
	require.NoError(t, err)
	return nil, nil
}

func (tr *transport) readPackets() {
	for {
		buf := make([]byte, 65536)
		n, from, err := tr.packets.ReadFrom(buf)
		if err != nil {
			return
		}
		select {
		case tr.packetCh <- &memberlist.Packet{Buf: buf[:n], From: from, Timestamp: time.Now()}:
		case <-tr.quit:
			return
		}
	}
}

func (tr *transport) acceptStreams() {
	for {
		c, err := tr.streams.Accept()
		if err != nil {
			return
		}
		select {
		case tr.streamCh <- c:
		case <-tr.quit:
			c.Close()
			return
		}
	}
}

func (tr *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	addr := tr.streams.Addr().(*net.TCPAddr)
	return addr.IP, addr.Port, nil
}

func (tr *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return time.Time{}, err
	}
	tr.sent.Add(1)
	_, err = tr.packets.WriteTo(b, to)
	return time.Now(), err
}

func (tr *transport) PacketCh() <-chan *memberlist.Packet { return tr.packetCh }
func (tr *transport) StreamCh() <-chan net.Conn           { return tr.streamCh }

func (tr *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, timeout)
}

func (tr *transport) Shutdown() error {
	close(tr.quit)
	return errors.Join(tr.streams.Close(), tr.packets.Close())
}

// A witness tells of the members that a member sees come and go.
type witness struct{ joined, left chan string }

func (w witness) NotifyJoin(n *memberlist.Node)   { w.joined <- n.Name }
func (w witness) NotifyLeave(n *memberlist.Node)  { w.left <- n.Name }
func (w witness) NotifyUpdate(n *memberlist.Node) {}

// await waits for a name.
func await(t *testing.T, names <-chan string, want string) {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case got := <-names:
			if got == want {
				return
			}
		case <-limit:
			require.FailNow(t, "nobody tells of "+want)
		}
	}
}

// Four members find each other, one dies without a word, and the others notice,
// all by messages: they do not ask by TCP who is alive.
func TestMemberlist(t *testing.T) {
	const count = 4
	var members [count]*memberlist.Memberlist
	var witnesses [count]witness
	var transports [count]*transport
	for i := range count {
		witnesses[i] = witness{make(chan string, 1000), make(chan string, 1000)}
		transports[i] = newTransport(t)
		conf := memberlist.DefaultLocalConfig()
		conf.Name = strconv.Itoa(i)
		conf.Transport, conf.Events, conf.LogOutput = transports[i], witnesses[i], io.Discard
		conf.DisableTcpPings = true
		conf.RetransmitMult, conf.PushPullInterval, conf.TCPTimeout = 4, time.Second, patience // what gossip misses is soon made up for
		conf.ProbeInterval, conf.ProbeTimeout, conf.SuspicionMult = 300*time.Millisecond, 200*time.Millisecond, 2
		var err error
		members[i], err = memberlist.Create(conf)
		require.NoError(t, err)
		defer members[i].Shutdown()
	}
	for i := 1; i < count; i++ {
		_, err := members[i].Join([]string{transports[0].streams.Addr().String()})
		require.NoError(t, err)
	}
	for i := range count {
		seen := map[string]bool{}
		for limit := time.After(patience); len(seen) < count; {
			select {
			case name := <-witnesses[i].joined:
				seen[name] = true
			case <-limit:
				require.FailNow(t, fmt.Sprintf("member %d knows of %v only", i, seen))
			}
		}
	}
	require.NoError(t, members[3].Shutdown())
	for i := range 3 {
		await(t, witnesses[i].left, "3")
		require.Positive(t, transports[i].sent.Load())
	}
}
