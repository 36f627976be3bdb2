package secure

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
)

// dialFails requires the text of an error of Dial, in which PORT is that of the URL.
func dialFails(t *testing.T, d *Dialer, url, text string) {
	t.Helper()
	a, err := parseURL(url)
	require.NoError(t, err)
	_, err = d.Dial(t.Context(), url)
	require.Error(t, err)
	text = strings.ReplaceAll(text, "PORT", a.url.Port())
	require.Contains(t, err.Error(), text)
}

// Whatever is wrong, the error says what, and what helps.
func TestErrorsSayWhatToDo(t *testing.T) {
	l := newServer(t, nil)
	url := l.URL("127.0.0.1")
	plain, pins, _ := strings.Cut(url, "#")

	t.Run("no TCP", func(t *testing.T) {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		tcp.Close()
		dialFails(t, &Dialer{}, "volley://"+tcp.Addr().String()+"#"+pins,
			"nothing answers at TCP port PORT; is it open in the firewall? sessions use UDP and TCP port PORT: ")
	})
	t.Run("no UDP", func(t *testing.T) {
		blackhole, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer blackhole.Close()
		_, port, _ := net.SplitHostPort(blackhole.LocalAddr().String())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			blackhole.ReadFrom(make([]byte, 2000))
			cancel()
		}()
		d := Dialer{Header: http.Header{serverHeader: {blackhole.LocalAddr().String()}}}
		_, err = d.Dial(ctx, url)
		var de *DialError
		require.ErrorAs(t, err, &de)
		require.Equal(t, "udp", de.Step)
		require.ErrorContains(t, err, "the server gives tokens by TCP, and UDP port "+port+" does not answer; is UDP open in the firewall?")
	})
	t.Run("wrong pin", func(t *testing.T) {
		other := newServer(t, nil)
		dialFails(t, &Dialer{}, plain+"#"+other.Fingerprint(), "this is not the server of the URL: it has the key "+
			l.Fingerprint()+", and the URL says "+other.Fingerprint())
		c, err := Dial(t.Context(), plain+"#"+other.Fingerprint()+","+l.Fingerprint())
		require.NoError(t, err, "one of two pins, while the key changes")
		c.Close()
	})
	t.Run("the certificate without its key", func(t *testing.T) {
		stolen := l.service.tls.Certificates[0]
		stolen.PrivateKey = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		tl, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{stolen}, NextProtos: protocols})
		require.NoError(t, err)
		defer tl.Close()
		go serveTLS(tl)
		dialFails(t, &Dialer{}, "volley://"+tl.Addr().String()+"#"+pins,
			"this is not the server of the URL: tls: invalid signature by the server certificate")
	})
	t.Run("no pin and no CA", func(t *testing.T) {
		dialFails(t, &Dialer{}, plain, "this is not the server of the URL: tls: failed to verify certificate")
	})
	t.Run("a pin cut short", func(t *testing.T) {
		_, err := Dial(t.Context(), url[:len(url)-1])
		require.ErrorContains(t, err, "was the URL cut short?")
		_, err = Dial(t.Context(), plain+"#")
		require.ErrorContains(t, err, "was the URL cut short?")
	})
	t.Run("old version", func(t *testing.T) {
		for _, protocols := range [][]string{{"volley/0"}, nil} {
			old := &tls.Config{Certificates: l.service.tls.Certificates, NextProtos: protocols}
			tl, err := tls.Listen("tcp", "127.0.0.1:0", old)
			require.NoError(t, err)
			defer tl.Close()
			go serveTLS(tl)
			dialFails(t, &Dialer{}, "volley://"+tl.Addr().String()+"#"+pins,
				"the server speaks another version of the protocol; is one side older?")
		}
		old := &tls.Config{Certificates: l.service.tls.Certificates, NextProtos: protocols, MaxVersion: tls.VersionTLS12}
		tl, err := tls.Listen("tcp", "127.0.0.1:0", old)
		require.NoError(t, err)
		defer tl.Close()
		go serveTLS(tl)
		dialFails(t, &Dialer{}, "volley://"+tl.Addr().String()+"#"+pins,
			"the server speaks another version of the protocol; is one side older?")
	})
	t.Run("no TLS", func(t *testing.T) {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer tcp.Close()
		go func() {
			for c, err := tcp.Accept(); err == nil; c, err = tcp.Accept() {
				c.Write([]byte("SSH-2.0-OpenSSH\r\n"))
			}
		}()
		dialFails(t, &Dialer{}, "volley://"+tcp.Addr().String()+"#"+pins, "this is not the server of the URL: ")
	})
	t.Run("refused", func(t *testing.T) {
		closed := newServer(t, &ListenConfig{Authorize: func(*http.Request) (*Grant, error) {
			return nil, errors.New("the beta has ended\nx\x00")
		}})
		_, err := Dial(t.Context(), closed.URL("127.0.0.1"))
		require.EqualError(t, err, "secure: the server refuses the client: the beta has ended x")
	})
	t.Run("full", func(t *testing.T) {
		small := newServer(t, &ListenConfig{Sessions: &netcode.ListenConfig{MaxClients: 1}})
		newSession(t, small)
		_, err := Dial(t.Context(), small.URL("127.0.0.1"))
		require.EqualError(t, err, "secure: the server refuses the client: the server is full; it asks to try again in 5s")
	})
	t.Run("key file that others can read", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("modes mean nothing there")
		}
		file := filepath.Join(t.TempDir(), "server.key")
		lc := &ListenConfig{KeyFile: file}
		first := newServer(t, lc)
		require.NoError(t, os.Chmod(file, 0o640))
		_, err := Listen("udp", "127.0.0.1:0", lc)
		require.EqualError(t, err, "secure: key file "+file+
			": others may use it, because its mode is 0640; set the mode 0600, as with chmod 600")
		require.NoError(t, os.Chmod(file, 0o600))
		require.Equal(t, first.Fingerprint(), newServer(t, lc).Fingerprint(), "the key stays")
	})
}

func serveTLS(l net.Listener) {
	for c, err := l.Accept(); err == nil; c, err = l.Accept() {
		c.(*tls.Conn).Handshake()
		c.Close()
	}
}

// The clocks of both sides do not matter with a pin. In a bubble of package synctest it is the
// year 2000: that is more than a day off.
func TestClocksDoNotMatter(t *testing.T) {
	echo := func(l *Listener) {
		for c, err := l.AcceptConn(t.Context()); err == nil; c, err = l.AcceptConn(t.Context()) {
			b, _ := c.ReadMessage(t.Context(), nil)
			c.Write(b)
		}
	}
	talk := func(t *testing.T, url string) {
		c, err := Dial(t.Context(), url)
		require.NoError(t, err)
		_, err = c.Write([]byte("what time is it?"))
		require.NoError(t, err)
		b, err := c.ReadMessage(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "what time is it?", string(b))
		require.NoError(t, c.Close())
	}
	t.Run("the client is late", func(t *testing.T) {
		l := newServer(t, nil)
		go echo(l)
		synctest.Test(t, func(t *testing.T) { talk(t, l.URL("127.0.0.1")) })
	})
	t.Run("the server is late", func(t *testing.T) {
		urls, done := make(chan string, 1), make(chan struct{})
		go func() {
			defer close(done)
			talk(t, <-urls)
		}()
		synctest.Test(t, func(t *testing.T) {
			l, err := Listen("udp", "127.0.0.1:0", nil)
			require.NoError(t, err)
			urls <- l.URL("127.0.0.1")
			c, err := l.AcceptConn(t.Context())
			require.NoError(t, err)
			b, err := c.ReadMessage(t.Context(), nil)
			require.NoError(t, err)
			c.Write(b)
			c.Read(b)
			require.NoError(t, c.Close())
			require.NoError(t, l.Close())
		})
		<-done
	})
}

// With a CA the clock of the client matters, as for any web server.
func TestClockWithCA(t *testing.T) {
	cert, pool := testCA(t)
	l := newServer(t, &ListenConfig{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	require.NotContains(t, l.URL("localhost"), "#")
	d := &Dialer{Trust: pool}
	c, err := d.Dial(t.Context(), l.URL("localhost"))
	require.NoError(t, err)
	c.Close()
	dialFails(t, d, l.URL("127.0.0.1"), "this is not the server of the URL: ")
	synctest.Test(t, func(t *testing.T) {
		dialFails(t, d, l.URL("localhost"), "the certificate of the server is not valid at this time; is the clock of this machine right?")
	})
}

// testCA returns a certificate for localhost, and those who trust it.
func testCA(t *testing.T) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// Options that do not fit are errors that name the field.
func TestConfigErrors(t *testing.T) {
	for field, lc := range map[string]*ListenConfig{
		"KeyFile":                {KeyFile: "x", TLS: &tls.Config{}},
		"TLS":                    {TLS: &tls.Config{}},
		"Backend":                {Backend: "short"},
		"Public":                 {Public: netip.AddrPortFrom(internalAddress.Addr(), 0)},
		"Sessions.Addresses":     {Sessions: &netcode.ListenConfig{Addresses: []netip.AddrPort{internalAddress}}},
		"Sessions.PrivateKey":    {Sessions: &netcode.ListenConfig{PrivateKey: netcode.GenerateKey()}},
		"Sessions.TokenLifetime": {Sessions: &netcode.ListenConfig{TokenLifetime: time.Second}},
	} {
		_, err := Listen("udp", "127.0.0.1:0", lc)
		var ce *netcode.ConfigError
		require.ErrorAs(t, err, &ce, field)
		require.Equal(t, "secure.ListenConfig."+field, ce.Field)
	}
}
