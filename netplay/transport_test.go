package netplay_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/netplay"
)

// A messagePipe is a message connection in memory that keeps order.
type messagePipe struct {
	net.Conn // for the addresses and deadlines
	in, out  chan []byte
	end      chan struct{}
	once     *sync.Once
	max      int
	ordered  bool
	sizes    *[]int // of the messages written
}

func newMessagePipe(max int, ordered bool) (a, b *messagePipe) {
	x, y := net.Pipe()
	ab, ba := make(chan []byte, 100), make(chan []byte, 100)
	end, once := make(chan struct{}), new(sync.Once)
	return &messagePipe{x, ba, ab, end, once, max, ordered, new([]int)}, &messagePipe{y, ab, ba, end, once, max, ordered, new([]int)}
}

func (p *messagePipe) MaxMessageSize() int { return p.max }
func (p *messagePipe) KeepsOrder() bool    { return p.ordered }
func (p *messagePipe) Close() error        { p.once.Do(func() { close(p.end) }); return p.Conn.Close() }

func (p *messagePipe) Write(b []byte) (int, error) {
	if len(b) > p.max {
		return 0, &volley.MessageTooLargeError{Size: len(b), Max: p.max}
	}
	*p.sizes = append(*p.sizes, len(b))
	p.out <- bytes.Clone(b)
	return len(b), nil
}

func (p *messagePipe) Read(b []byte) (int, error) {
	select {
	case m := <-p.in:
		if n := copy(b, m); n < len(m) {
			return n, io.ErrShortBuffer
		}
		return len(m), nil
	default:
	}
	select {
	case m := <-p.in:
		if n := copy(b, m); n < len(m) {
			return n, io.ErrShortBuffer
		}
		return len(m), nil
	case <-p.end:
		return 0, io.EOF
	}
}

// TestMessageConnections checks that frames cross message connections that
// keep order: one each, and several for one that is too large.
func TestMessageConnections(t *testing.T) {
	x, y := newMessagePipe(1000, true)
	a, b := newConn(t, x, nil), newConn(t, y, nil)
	for _, size := range []int{0, 10, 989, 993, 994, 1500, 3000, 30000} {
		*x.sizes = nil
		m := &blob{make([]byte, size)}
		require.NoError(t, a.WriteMessage(context.Background(), m))
		require.Len(t, *x.sizes, (size+7+999)/1000)
		require.Equal(t, m, read(t, b))
	}
	a.Close()
	_, err := b.ReadMessage(context.Background())
	require.Equal(t, io.EOF, err)
}

// A tagged datagram connection is what volley's are: a message connection
// without order.
type unordered struct{ net.Conn }

func (unordered) MaxMessageSize() int { return 1200 }

// TestTransportsRefused checks that what loses messages is refused, and why.
func TestTransportsRefused(t *testing.T) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer udp.Close()
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	x, _ := newMessagePipe(1000, false)
	defer x.Close()
	zero, _ := newMessagePipe(0, true)
	defer zero.Close()
	for _, test := range []struct {
		nc   net.Conn
		text string
	}{
		{udp, "net.PacketConn"},
		{unordered{pipe}, "KeepsOrder"},
		{x, "KeepsOrder"},
		{zero, "MaxMessageSize is 0"},
	} {
		_, err := netplay.NewConn(test.nc, newRegistry(), nil)
		var te *netplay.ConfigError
		require.ErrorAs(t, err, &te)
		require.ErrorContains(t, err, test.text)
	}

	// A server says so, too.
	ln := newPipeListener()
	served := make(chan error, 1)
	srv := &netplay.Server{Registry: newRegistry()}
	go func() { served <- srv.Serve(ln) }()
	ln.conns <- unordered{pipe}
	require.ErrorAs(t, <-served, new(*netplay.ConfigError))
}

// TestUnixSockets checks that the streams among them are taken and the others
// refused, all being *net.UnixConn.
func TestUnixSockets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not all kinds exist elsewhere")
	}
	for _, network := range []string{"unix", "unixpacket"} {
		ln, err := net.Listen(network, filepath.Join(t.TempDir(), "s"))
		require.NoError(t, err)
		nc, err := net.Dial(network, ln.Addr().String())
		require.NoError(t, err)
		c, err := netplay.NewConn(nc, newRegistry(), nil)
		if network == "unix" {
			require.NoError(t, err)
			peer := newConn(t, accept(t, ln), nil)
			require.NoError(t, c.WriteMessage(context.Background(), &chat{"a", "b"}))
			require.Equal(t, &chat{"a", "b"}, read(t, peer))
		} else {
			require.ErrorAs(t, err, new(*netplay.ConfigError))
		}
		nc.Close()
		ln.Close()
	}
}

// newTLSConfig returns the configuration of a server that the client trusts.
func newTLSConfig(t *testing.T) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{"server"},
		NotAfter:     time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: roots, ServerName: "server"}
}

// TestTLS runs a server and a client over TLS, with a farewell that must not be
// cut off by what the server has not read.
func TestTLS(t *testing.T) {
	server, client := newTLSConfig(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	srv := &netplay.Server{Registry: newRegistry()}
	netplay.Handle(srv, func(c *netplay.Conn, m *chat) error { return srv.Kick(c, m) })
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	got := make(chan string, 1)
	cl := &netplay.Client{
		Registry: newRegistry(),
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&tls.Dialer{Config: client}).DialContext(ctx, "tcp", ln.Addr().String())
		},
	}
	netplay.Handle(cl, func(c *netplay.Conn, m *chat) error { got <- m.Text; return nil })
	require.NoError(t, cl.WriteMessage(context.Background(), &chat{"c", "bye"}))
	for range 20 {
		require.NoError(t, cl.WriteMessage(context.Background(), &blob{make([]byte, 5000)}))
	}
	require.NoError(t, cl.Run(t.Context()))
	require.Equal(t, "bye", <-got)
	require.NoError(t, srv.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, netplay.ErrServerClosed)
}
