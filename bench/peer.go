package main

import (
	"cmp"
	"iter"
	"net"
	"os"
	"slices"
)

// A link carries messages between two ends. One goroutine at a time writes and
// one reads.
type link interface {
	// WriteMessage sends b, or keeps a copy until Flush.
	WriteMessage(b []byte) error
	// Flush sends what WriteMessage has kept.
	Flush() error
	// ReadMessage returns the next message, which is valid until the next
	// call. It may use buf, which has room for the largest message.
	ReadMessage(buf []byte) ([]byte, error)
	Close() error
}

// A batchWriter is a link that takes a burst of messages in one call.
type batchWriter interface {
	WriteBatch(msgs [][]byte) error
}

// A listener waits for links.
type listener interface {
	// Accept returns a link once a client has written to it. The listener of
	// a peer that has no connections returns one link for all clients.
	Accept() (link, error)
	Addr() net.Addr
	Close() error
}

// A peer is a way to send messages that takes part in the comparison.
type peer struct {
	name  string
	about string // for the report
	// module is the path of the library's module, for its version.
	module string
	// listen and dial make the two ends of links for messages of one size.
	listen func(size int) (listener, error)
	dial   func(addr string, size int) (link, error)
	// maxMessage is the largest message in bytes; zero: no limit that matters.
	maxMessage int
	// window is how many messages of a size may be on their way, so that none
	// is lost; nil: the peer has flow control of its own.
	window func(size int) int
	// crowd tells that thousands of clients need no more memory and time than a
	// machine has.
	crowd bool
	// connectionless peers have one link at the server for all clients.
	connectionless bool
	// modes are those it can take part in; nil: all but game and fan-out.
	modes []string
	// loadModes are those of game and fan-out that it can take part in.
	loadModes []string
	// fanOut returns how the server writes one message to all links in one
	// pass; nil: by a loop of WriteMessage.
	fanOut func(links []link) func(msg []byte) error
	// sendEach writes messages of their own to many links in one pass; nil: by a loop
	// of WriteMessage.
	sendEach func(msgs iter.Seq2[link, []byte]) error
}

// can tells whether p takes part in a mode with messages of a size.
func (p *peer) can(mode string, size int) bool {
	if mode == modeGame || mode == modeFanOut {
		return slices.Contains(p.loadModes, mode)
	}
	return (p.maxMessage == 0 || size <= p.maxMessage) && (p.modes == nil || slices.Contains(p.modes, mode))
}

// peers are all there are on this platform, in the order of the report.
var peers []*peer

func init() {
	peers = append(peers, volleyPeer)
	peers = append(peers, servePeers...)
	peers = append(peers, volleyPacketPeer, volleyNetcodePeer, volleyDTLSPeer)
	peers = append(peers, gsoPeers...)
	peers = append(peers, mmsgPeers...)
	peers = append(peers, udpPeer, tcpPeer, tcpBufferedPeer,
		quicStreamPeer, quicDatagramPeer, kcpFastPeer, kcpBulkPeer, dtlsPeer, sctpPeer, raknetPeer)
}

func findPeer(name string) *peer {
	i := slices.IndexFunc(peers, func(p *peer) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return peers[i]
}

// socketBuffer is the size in bytes that every peer asks for, if it can.
const socketBuffer = 4 << 20

// wideWindow suits peers whose socket buffers are of socketBuffer bytes. The
// kernel charges a datagram several hundred bytes more than its size.
func wideWindow(size int) int { return min(2048, (2<<20)/(size+768)) }

// listenEnv is the environment variable with the address of servers, if that is not the
// loopback device's.
const listenEnv = "VOLLEY_BENCH_LISTEN"

// listenAddr is where servers listen.
func listenAddr() string {
	return net.JoinHostPort(cmp.Or(os.Getenv(listenEnv), "127.0.0.1"), "0")
}

// narrowWindow suits peers whose socket buffers stay at the usual default.
func narrowWindow(size int) int { return min(64, (96<<10)/(size+768)) }

// listenUDP and dialUDP make sockets with large buffers.
func listenUDP() (*net.UDPConn, error) {
	laddr, err := net.ResolveUDPAddr("udp4", listenAddr())
	if err != nil {
		return nil, err
	}
	c, err := net.ListenUDP("udp4", laddr)
	if err == nil {
		setBuffers(c)
	}
	return c, err
}

func dialUDP(addr string) (*net.UDPConn, error) {
	raddr, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, err
	}
	c, err := net.DialUDP("udp4", nil, raddr)
	if err == nil {
		setBuffers(c)
	}
	return c, err
}

func setBuffers(c interface {
	SetReadBuffer(int) error
	SetWriteBuffer(int) error
}) {
	_ = c.SetReadBuffer(socketBuffer) // the limit of the system may be lower
	_ = c.SetWriteBuffer(socketBuffer)
}

// A oneLinkListener is the listener of a socket without connections: its only
// link takes part in the traffic of all clients.
type oneLinkListener struct {
	link  link
	addr  net.Addr
	given bool
	done  chan struct{}
}

func newOneLinkListener(l link, addr net.Addr) *oneLinkListener {
	return &oneLinkListener{link: l, addr: addr, done: make(chan struct{})}
}

func (l *oneLinkListener) Accept() (link, error) {
	if !l.given {
		l.given = true
		return l.link, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *oneLinkListener) Addr() net.Addr { return l.addr }

func (l *oneLinkListener) Close() error {
	close(l.done)
	return l.link.Close()
}
