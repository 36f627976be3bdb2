package interop

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

const quicProtocol = "interop"

// certificate is a self-signed one of the server, and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// QUIC takes a net.PacketConn for its socket, on both sides. Streams and its own
// datagrams arrive; one socket serves several connections.
func TestQUIC(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cert, pool := certificate(t)
	conf := &quic.Config{EnableDatagrams: true}
	server := &quic.Transport{Conn: listenPacket(t, "127.0.0.1:0")}
	defer server.Close()
	l, err := server.Listen(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{quicProtocol}}, conf)
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return // the test is over
			}
			go func() { result <- echoQUIC(ctx, c) }()
		}
	}()

	client := &quic.Transport{Conn: listenPacket(t, "127.0.0.1:0")}
	defer client.Close()
	trust := &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{quicProtocol}}
	for range 3 {
		c, err := client.Dial(ctx, server.Conn.LocalAddr(), trust, conf)
		require.NoError(t, err)
		s, err := c.OpenStreamSync(ctx)
		require.NoError(t, err)
		want := message(1 << 20)
		sent := make(chan error, 1)
		go func() {
			_, err := s.Write(want)
			s.Close()
			sent <- err
		}()
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
		done(t, sent)
		require.NoError(t, c.SendDatagram(message(1000)))
		datagram, err := c.ReceiveDatagram(ctx)
		require.NoError(t, err)
		require.Equal(t, message(1000), datagram)
		require.NoError(t, c.CloseWithError(0, ""))
		done(t, result)
	}
}

// echoQUIC sends back a stream and a datagram, and waits for the end.
func echoQUIC(ctx context.Context, c *quic.Conn) error {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return err
	}
	if _, err := io.Copy(s, s); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	datagram, err := c.ReceiveDatagram(ctx)
	if err != nil {
		return err
	}
	if err := c.SendDatagram(datagram); err != nil {
		return err
	}
	<-c.Context().Done()
	return nil
}
