package netcode

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"volley/simnet"
)

// A lineLog collects log lines.
type lineLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// lines takes what has been logged.
func (l *lineLog) lines(t *testing.T) (lines []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range strings.Split(strings.TrimSpace(l.buf.String()), "\n") {
		var m map[string]any
		if s != "" && json.Unmarshal([]byte(s), &m) != nil {
			t.Fatalf("line %q", s)
		}
		if m != nil {
			lines = append(lines, m)
		}
	}
	l.buf.Reset()
	return lines
}

// TestLogIsLimited: a flood of bad requests makes a line a second, which says
// how many there were.
func TestLogIsLimited(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		var log lineLog
		l := simListen(t, n, func(lc *ListenConfig) {
			lc.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		})
		defer l.Close()
		attacker, _ := n.Listen("10.6.6.6:6")
		defer attacker.Close()
		request := make([]byte, requestSize)
		putRequest(request, &Token{protocolID: 1})
		for range 3000 { // three seconds of other protocol ids, and of noise
			attacker.WriteToUDPAddrPort(request, testServerAddr)
			attacker.WriteToUDPAddrPort([]byte{0x15, 1, 2}, testServerAddr)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		lines := log.lines(t)
		if len(lines) != 3 {
			t.Fatalf("%d lines, want 3: %v", len(lines), lines)
		}
		for i, want := range []float64{1, 1000, 1000} {
			if m := lines[i]; m["reason"] != "protocol_id" || m["count"] != want || m["from"] != "10.6.6.6:6" || m["level"] != "WARN" {
				t.Errorf("line %d = %v, want %v of protocol_id", i, m, want)
			}
		}
		if s := l.Stats(); s.Drops[dropProtocolID.String()] != 3000 || s.Drops[dropNoHandshake.String()] != 3000 || total(s.Drops) != 6000 {
			t.Errorf("drops %v", s.Drops)
		}
	})
}

func TestFilter(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, func(lc *ListenConfig) {
			lc.Filter = func(ap netip.AddrPort) bool { return ap.Addr() != netip.MustParseAddr("10.0.1.1") }
		})
		defer l.Close()
		if _, err := simDial(t, n, simToken(t, 1)); err == nil {
			t.Error("a filtered address got a session")
		}
		if s := l.Stats(); s.Requests != 0 {
			t.Errorf("%d requests were looked at", s.Requests)
		}
	})
}

// TestBacklog: sessions beyond what Accept takes are ended, and the client
// learns it.
func TestBacklog(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, func(lc *ListenConfig) { lc.Backlog = 2 })
		defer l.Close()
		for i := range 3 {
			c, err := simDial(t, n, simToken(t, uint64(i)))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetReadDeadline(time.Now().Add(time.Second))
			_, err = c.Read(make([]byte, 9))
			if ended := err.Error() == "EOF"; ended != (i == 2) {
				t.Errorf("client %d: %v", i, err)
			}
		}
		synctest.Wait()
		if s := l.Stats(); s.Refused != 1 || s.Accepted != 3 || s.Conns != 2 {
			t.Errorf("Stats() = %+v", s)
		}
	})
}

// TestListenerForgets: what handshakes leave behind is gone when it has
// expired, without any further datagram.
func TestListenerForgets(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		client, server := simPair(t, n, l, 1)
		defer closeAll(client, server, l)
		pc, _ := n.Listen("10.6.6.6:6")
		defer pc.Close()
		pc.WriteToUDPAddrPort(clientSends(newTestClient(time.Now(), simToken(t, 2)), time.Now())[0], testServerAddr)
		synctest.Wait()
		if s := l.Stats(); s.Tokens != 2 || s.Handshakes != 1 {
			t.Errorf("%d tokens, %d handshakes, want 2 and 1", s.Tokens, s.Handshakes)
		}
		time.Sleep(40 * time.Second)
		if s := l.Stats(); s.Tokens != 0 || s.Handshakes != 0 || s.Conns != 1 {
			t.Errorf("%d tokens, %d handshakes, %d sessions later, want 0, 0, 1", s.Tokens, s.Handshakes, s.Conns)
		}
	})
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	key := GenerateKey()
	l, err := Listen("udp", "127.0.0.1:0", key, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var writers, readers sync.WaitGroup
	var servers []io.Closer
	for i := range 4 {
		client, err := new(Dialer).DialWithKey(t.Context(), l.Addr().String(), key, 0, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.AcceptConn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(client, server)
		for _, c := range []*Conn{client, server} {
			for range 2 {
				writers.Go(func() {
					for j := range 300 {
						c.Write(make([]byte, 1+j))
						c.WriteBatch([][]byte{{1}, {2}})
						c.Stats()
						c.SetWriteDeadline(time.Time{})
					}
				})
				readers.Go(func() {
					b := make([]byte, MaxMessageSize)
					for {
						if _, err := c.Read(b); err != nil {
							return
						}
					}
				})
			}
		}
		writers.Go(func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			client.Close()
		})
		servers = append(servers, server)
	}
	writers.Go(func() {
		for range 100 {
			l.Stats()
		}
	})
	writers.Wait()
	closeAll(servers...) // the clients' word may have been lost
	readers.Wait()
}
