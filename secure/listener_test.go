package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/simnet"
)

// After Close nobody joins, and sessions live on. Shutdown waits for them.
func TestCloseAndShutdown(t *testing.T) {
	l := newServer(t, nil)
	client, server := newSession(t, l)
	require.NoError(t, l.Close())
	_, err := Dial(t.Context(), l.URL("127.0.0.1"))
	var de *DialError
	require.ErrorAs(t, err, &de)
	require.Equal(t, "tcp", de.Step)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	client.Write([]byte("x"))
	_, err = server.Read(make([]byte, 10))
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Shutdown(ctx), context.DeadlineExceeded)
	_, err = server.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, l.Shutdown(t.Context()))
}

// A Listener has one port number for UDP and TCP, and its deadline is that of Accept.
func TestListenerPorts(t *testing.T) {
	l := newServer(t, nil)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	tcp, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	require.NoError(t, err)
	tcp.Close()
	_, err = Listen("udp", l.Addr().String(), nil)
	require.Error(t, err)
	require.NoError(t, l.SetDeadline(time.Now()))
	_, err = l.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A server whose TLS chooses certificates by functions has no fingerprint.
func TestNoFingerprint(t *testing.T) {
	cert, pool := testCA(t)
	l := newServer(t, &ListenConfig{TLS: &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil },
	}})
	require.Empty(t, l.Fingerprint())
	c, err := (&Dialer{Trust: pool}).Dial(t.Context(), l.URL("localhost"))
	require.NoError(t, err)
	c.Close()
}

// A lockedBuffer is a log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// An Authorize that takes too long can still refuse, and the client gets the text.
func TestSlowAuthorize(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{Authorize: func(r *http.Request) (*Grant, error) {
			<-r.Context().Done()
			time.Sleep(answerTime / 2)
			return nil, errors.New("the database is slow")
		}})
		d := w.dialer()
		d.dialTCP = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe() // with deadlines for writes, too
			w.tokens <- server
			return addressed{client, w.Addr()}, nil
		}
		_, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.EqualError(t, err, "secure: the server refuses the client: the database is slow")
		require.NoError(t, l.Close())
	})
}

// addressed is an end of a connection with an address.
type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

// A client that names an address which is none of a server is refused, and the log keeps silent.
func TestServerHeader(t *testing.T) {
	log := new(lockedBuffer)
	l := newServer(t, &ListenConfig{Sessions: &netcode.ListenConfig{Logger: slog.New(slog.NewTextHandler(log, nil))}})
	for _, address := range []string{"x", "192.0.2.1", "192.0.2.1:0", "0.0.0.0:1", "[::]:1", "224.0.0.1:1", "[ff02::1]:1",
		"255.255.255.255:1", "[::ffff:255.255.255.255]:1", "[::ffff:0.0.0.0]:1", "192.0.2.1:99999"} {
		d := Dialer{Header: http.Header{serverHeader: {address}}}
		_, err := d.Dial(t.Context(), l.URL("127.0.0.1"))
		require.EqualError(t, err, "secure: the server refuses the client: the header Volley-Server must be the server's address and port", address)
	}
	require.NotContains(t, log.String(), "ERROR")
}

// Faults of Authorize reach the server's log, and the client learns nothing of them.
func TestFaultsAreLogged(t *testing.T) {
	for text, authorize := range map[string]func(*http.Request) (*Grant, error){
		"neither a Grant nor an error came from Authorize":     func(*http.Request) (*Grant, error) { return nil, nil },
		"the Identity in a Grant has 129 bytes, more than 128": func(*http.Request) (*Grant, error) { return &Grant{Identity: make([]byte, 129)}, nil },
		"oh no, the database":                                  func(*http.Request) (*Grant, error) { panic("oh no, the database") },
	} {
		log := new(lockedBuffer)
		l := newServer(t, &ListenConfig{Authorize: authorize, Sessions: &netcode.ListenConfig{Logger: slog.New(slog.NewTextHandler(log, nil))}})
		for !strings.Contains(log.String(), text) { // the machine may be too busy for the first one
			_, err := Dial(t.Context(), l.URL("127.0.0.1"))
			var de *DialError
			require.ErrorAs(t, err, &de)
			require.Equal(t, "token", de.Step)
			require.NotContains(t, err.Error(), text)
			time.Sleep(10 * time.Millisecond)
		}
	}
}
