package stacktest

import (
	"encoding/binary"
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"volley"
)

var (
	soakFlag = flag.Uint64("soak", 0, "how many messages TestSoak sends, such as 100000000")
	hogsFlag = flag.Int("hogs", 2*runtime.NumCPU(), "how many threads beside TestSoak do nothing but compute")
)

// TestSoak sends very many messages over a lossless pipe, half of them each way,
// while other threads compute, so that the system stops senders anywhere. All
// arrive, in order, and none is called Lost. It runs only when asked to:
//
//	go test -run TestSoak -timeout 0 ./internal/stacktest -soak 100000000
func TestSoak(t *testing.T) {
	if *soakFlag == 0 {
		t.Skip("run with -soak 100000000 -timeout 0")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(*hogsFlag + 2*runtime.NumCPU())) // a thread each
	var stop atomic.Bool
	var hogs sync.WaitGroup
	for range *hogsFlag {
		hogs.Go(func() {
			for x := uint64(1); !stop.Load(); x = x*6364136223846793005 + 1 {
			}
		})
	}
	defer hogs.Wait()
	defer stop.Store(true)

	a, b := volley.Pipe(nil)
	each := *soakFlag / 2
	var wg sync.WaitGroup
	for _, way := range [][2]*volley.Conn{{a, b}, {b, a}} {
		wg.Go(func() { soakWrite(t, way[0], each) })
		wg.Go(func() { soakRead(t, way[1], each) })
	}
	wg.Wait()
	time.Sleep(time.Second) // the last acknowledgements
	for _, c := range []*volley.Conn{a, b} {
		s := c.Stats()
		if s.MessagesDelivered != each || s.MessagesLost != 0 || s.PacketsDuplicate+s.PacketsStale != 0 {
			t.Errorf("%d of %d delivered, %d called lost, %d duplicate, %d stale", s.MessagesDelivered, each,
				s.MessagesLost, s.PacketsDuplicate, s.PacketsStale)
		}
	}
	a.Close()
	b.Close()
}

func soakWrite(t *testing.T, c *volley.Conn, n uint64) {
	msg := make([]byte, 16)
	for i := range n {
		binary.LittleEndian.PutUint64(msg, i)
		if _, err := c.Write(msg); err != nil {
			t.Errorf("message %d: %v", i, err)
			return
		}
	}
}

func soakRead(t *testing.T, c *volley.Conn, n uint64) {
	buf := make([]byte, 16)
	for want := uint64(0); want < n; want++ {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(buf); err != nil {
			t.Errorf("message %d: %v", want, err)
			return
		}
		if got := binary.LittleEndian.Uint64(buf); got != want {
			t.Errorf("message %d instead of %d", got, want)
			return
		}
	}
}
