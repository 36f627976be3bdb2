package volley

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

var full = flag.Bool("full", false, "run the tests at their full size, which takes minutes")

// sized returns how large a test is: small by default, so that the package's
// tests take seconds, and full with -full, as in .ci/run.
func sized(small, large int) int {
	if *full && !raceEnabled {
		return large
	}
	return small
}

// udpPair returns two connections over loopback, dialed and accepted. They are
// closed with the test.
func udpPair(tb testing.TB, cfg *Config) (client, server *Conn) {
	tb.Helper()
	lc := ListenConfig{Config: cfg}
	l, err := lc.Listen(tb.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	d := Dialer{Config: cfg}
	client, err = d.dial(tb.Context(), "udp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	l.SetDeadline(time.Now().Add(30 * time.Second))
	for {
		server, err = l.AcceptConn()
		if err != nil {
			client.Close()
			tb.Fatal(err)
		}
		if server.RemoteAddr().String() == client.LocalAddr().String() {
			break
		}
		server.Close() // a stranger, for whom this port may have been another program's
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// pattern fills a message with its number and bytes that follow from it.
func pattern(number uint32, size int) []byte {
	b := make([]byte, size)
	fillPattern(b, number)
	return b
}

func fillPattern(b []byte, number uint32) {
	x := number
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	if len(b) >= 4 {
		binary.BigEndian.PutUint32(b, number)
	}
}

// checkPattern returns the number of a message of at least four bytes, or an
// error if it is not intact.
func checkPattern(b []byte) (uint32, error) {
	if len(b) < 4 {
		return 0, fmt.Errorf("message of %d bytes", len(b))
	}
	n := binary.BigEndian.Uint32(b)
	if !bytes.Equal(b, pattern(n, len(b))) {
		return n, fmt.Errorf("message %d of %d bytes is corrupt", n, len(b))
	}
	return n, nil
}

func wantErr(tb testing.TB, what string, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("%s: %v, want %v", what, err, want)
	}
}

// wantTimeout checks for the error that nettest and older code look for.
func wantTimeout(tb testing.TB, what string, err error) {
	tb.Helper()
	wantErr(tb, what, err, os.ErrDeadlineExceeded)
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
		tb.Errorf("%s: %v is no net.Error with Timeout", what, err)
	}
}
