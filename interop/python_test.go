package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/secure"
)

// python returns a Python that has the module cryptography.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the second finds what Debian has packaged
		if exec.Command(name, "-c", "import cryptography").Run() == nil {
			return name
		}
	}
	t.Skip("SKIPPED: THE CLIENT IN PYTHON IS NOT TESTED: Debian's packages python3 and python3-cryptography are not there")
	return ""
}

// runPython runs testdata/client.py and returns what it prints.
func runPython(t *testing.T, input []byte, args ...string) string {
	t.Helper()
	out, err := tryPython(t, input, args...)
	require.NoError(t, err, "%s", out)
	return out
}

func tryPython(t *testing.T, input []byte, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python(t), append([]string{"testdata/client.py"}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

const (
	pythonProtocol = 0x1122334455667788
	came           = "messages came back" // what the client prints in the end
)

// serveOne gives the first session of a listener to serve. The channel gets the result.
func serveOne[C net.Conn](t *testing.T, accept func(context.Context) (C, error), serve func(C) error) <-chan error {
	result := make(chan error, 1)
	go func() {
		c, err := accept(t.Context())
		if err == nil {
			c.SetDeadline(time.Now().Add(patience))
			err = serve(c)
			c.Close()
		}
		result <- err
	}()
	return result
}

// pythonServer serves sessions on an address and returns a token for one, in
// base64, which lists the addresses before first. The session is given to serve.
func pythonServer(t *testing.T, address string, serve func(*netcode.Conn) error, before ...netip.AddrPort) (token []byte, ln *netcode.Listener, served <-chan error) {
	t.Helper()
	key := netcode.GenerateKey()
	ln, err := netcode.Listen("udp", address, key, pythonProtocol)
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	served = serveOne(t, ln.AcceptConn, serve)
	issuer := netcode.Issuer{
		PrivateKey: key, ProtocolID: pythonProtocol, Timeout: time.Second,
		Servers: append(before, ln.Addr().(*net.UDPAddr).AddrPort()),
	}
	issued, err := issuer.Issue(77, nil)
	require.NoError(t, err)
	token, err = issued.MarshalText()
	require.NoError(t, err)
	return token, ln, served
}

// echoSession sends back what comes, until the session ends.
func echoSession[C net.Conn](c C) error {
	b := make([]byte, netcode.MaxMessageSize)
	for {
		n, err := c.Read(b)
		if err != nil {
			return nil
		}
		if _, err := c.Write(b[:n]); err != nil {
			return err
		}
	}
}

// TestPython runs a client that was written from docs/netcode.md alone.
func TestPython(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			if l, err := net.Listen("tcp", address); err != nil {
				t.Skip("no such address here")
			} else {
				l.Close()
			}
			token, ln, served := pythonServer(t, address, func(c *netcode.Conn) error {
				if c.ClientID() != 77 {
					return fmt.Errorf("the client's id is %d, want 77", c.ClientID())
				}
				return echoSession(c)
			})
			require.Contains(t, runPython(t, token), came)
			done(t, served)
			require.Zero(t, ln.Stats().Drops["decrypt"], "a packet of the client did not open")
		})
	}
}

// The server ends the session, and its disconnect opens.
func TestPythonIsTold(t *testing.T) {
	token, _, served := pythonServer(t, "127.0.0.1:0", func(c *netcode.Conn) error {
		_, err := c.Read(make([]byte, 100)) // a disconnect before the client knows of the session means nothing to it
		return err
	})
	require.Contains(t, runPython(t, token, "wait"), "the server has ended the session")
	done(t, served)
}

// A request has the same bytes as one of Dial with the same token. The first
// address of the token is silent, so that the client turns to the next.
func TestPythonRequest(t *testing.T) {
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer silent.Close()
	require.NoError(t, silent.SetDeadline(time.Now().Add(patience)))
	text, _, served := pythonServer(t, "127.0.0.1:0", echoSession, silent.LocalAddr().(*net.UDPAddr).AddrPort())
	require.Contains(t, runPython(t, text), came)
	done(t, served)

	token := new(netcode.Token)
	require.NoError(t, token.UnmarshalText(text))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { new(netcode.Dialer).Dial(ctx, token) })
	defer wg.Wait()
	defer cancel()

	b := make([]byte, 2048)
	n, source, err := silent.ReadFromUDPAddrPort(b)
	require.NoError(t, err)
	want := bytes.Clone(b[:n])
	for from := source; from == source; {
		n, from, err = silent.ReadFromUDPAddrPort(b)
		require.NoError(t, err)
		require.Equal(t, want, b[:n])
	}
}

// TestPythonSecure: the client gets its token from a server of package secure, by a
// URL, over HTTPS.
func TestPythonSecure(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			ln, err := secure.Listen("udp", address, nil)
			if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
				t.Skip("no such address here")
			}
			require.NoError(t, err)
			defer ln.Close()
			served := serveOne(t, ln.AcceptConn, echoSession)
			url := ln.URL(ln.Addr().(*net.UDPAddr).IP.String())
			require.Contains(t, runPython(t, []byte(url)), came)
			done(t, served)
			require.Empty(t, ln.Stats().Drops)
		})
	}
}

// The client learns why the server ends the session, or refuses it, or that it is another.
func TestPythonSecureIsTold(t *testing.T) {
	refusals := make(chan error, 1)
	ln, err := secure.Listen("udp", "127.0.0.1:0", &secure.ListenConfig{
		Authorize: func(*http.Request) (*secure.Grant, error) { return &secure.Grant{ClientID: 7}, <-refusals },
	})
	require.NoError(t, err)
	defer ln.Close()
	url := []byte(ln.URL("127.0.0.1"))
	refusals <- errors.New("no such player")
	out, err := tryPython(t, url)
	require.Error(t, err)
	require.Contains(t, out, "403: no such player")

	other, err := secure.Listen("udp", "127.0.0.1:0", nil)
	require.NoError(t, err)
	defer other.Close()
	host, _, _ := strings.Cut(string(url), "#")
	out, err = tryPython(t, []byte(host+"#"+other.Fingerprint()))
	require.Error(t, err)
	require.Contains(t, out, "the server has the key "+ln.Fingerprint())

	refusals <- nil
	served := serveOne(t, ln.AcceptConn, func(c *secure.Conn) error {
		if _, err := c.Read(make([]byte, 100)); err != nil {
			return err
		}
		return c.CloseWithReason("kicked")
	})
	out = runPython(t, url, "wait")
	done(t, served)
	require.Contains(t, out, "the server says: kicked")
	require.Contains(t, out, "the server has ended the session")
}
