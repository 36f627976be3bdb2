package datagram

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// Dialed connections that come, sleep, wake and go, all at once, lose nothing.
func TestWakeMany(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	server, err := socket.NewUDP(conn, socket.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	to := server.LocalAddr().(*net.UDPAddr)
	go server.Features().Loop.ReadLoop(func(ps []socket.Packet) { // echo
		for _, p := range ps {
			server.WriteBatch([]socket.Packet{p})
		}
	})
	var wg sync.WaitGroup
	for i := range 16 {
		r := rand.New(rand.NewPCG(uint64(i), 2))
		wg.Go(func() {
			for range 20 {
				wakeEcho(t, to, r)
			}
		})
	}
	wg.Wait()
}

// wakeEcho sends packets on a new connection and sees each come back, which
// nobody reads but the connection itself.
func wakeEcho(t *testing.T, to *net.UDPAddr, r *rand.Rand) {
	udp, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		t.Error(err)
		return
	}
	sock, err := socket.NewUDP(udp, socket.Config{})
	if err != nil {
		t.Error(err)
		return
	}
	h := &countHandler{back: make(chan struct{}, 8)}
	c := NewSingle(sock, nil, 1000)
	defer c.Close()
	c.Attach(h)
	for range 1 + r.IntN(5) {
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
		}
		sock.WriteBatch([]socket.Packet{{Buf: []byte("x")}})
		select {
		case <-h.back:
		case <-time.After(time.Minute):
			t.Error("a packet is not read")
			return
		}
		if r.IntN(2) == 0 { // the goroutine ends, and then the socket sleeps
			var d deadline.Deadline
			d.Set(time.Now().Add(time.Millisecond))
			c.ReadInline(&d, noReaders{})
			time.Sleep(time.Duration(r.Int64N(int64(2 * inlinePatience))))
		}
	}
}

// An countHandler tells of each packet.
type countHandler struct {
	fakeHandler
	back chan struct{}
}

func (h *countHandler) HandleBatch(_ time.Time, bufs [][]byte, _ *wire.Batch) {
	for range bufs {
		h.back <- struct{}{}
	}
}
