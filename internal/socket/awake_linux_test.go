package socket

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// Where packets come seldom, each tells the scheduler; where they come often,
// two do for each time that the timer comes due, and none before that.
func TestTeller(t *testing.T) {
	for _, c := range []struct {
		interval  time.Duration
		told, set int // of the packets of ten tellInterval, and how often the timer was set
	}{
		{tellInterval, 10, 0},
		{tellInterval * 3 / 4, 8, 4},
		{tellInterval / 1000, 10, 5},
	} {
		var teller teller
		var due time.Duration // of the timer, if set
		told, set := 0, 0
		for now := time.Second; now < time.Second+10*tellInterval; now += c.interval {
			if due > 0 && due <= now {
				due = 0
				teller.rang()
			}
			if teller.bounded.Load() {
				if due == 0 {
					t.Fatalf("interval %v: at %v the scheduler is not told, without a timer", c.interval, now)
				}
				continue
			}
			told++
			if teller.often(int64(now)) {
				due, set = now+2*tellInterval, set+1
			}
		}
		if told != c.told || set != c.set {
			t.Errorf("interval %v: told %d times, timer set %d times, want %d and %d",
				c.interval, told, set, c.told, c.set)
		}
	}
}

// awakeVar is the variable by which TestAwake tells another process where to send
// packets.
const awakeVar = "VOLLEY_SOCKET_AWAKE"

// awakePackets is how many of them: the first finds the process idle, and from
// the second the scheduler need not be told.
const awakePackets = 50

// Who computes after a packet came is interrupted, so that timers come due. The
// packets come from another process, since whatever this one did to send them
// would wake Go's monitor.
func TestAwake(t *testing.T) {
	if to := os.Getenv(awakeVar); to != "" {
		sendAwake(t, to)
		return
	}
	for name, read := range map[string]func(s Socket, handle func([]Packet)) error{
		"ReadLoop":  func(s Socket, handle func([]Packet)) error { return s.(Looper).ReadLoop(handle) },
		"ReadStep":  func(s Socket, handle func([]Packet)) error { return repeat(s.(Stepper).ReadStep, handle) },
		"ReadBatch": readBatches,
	} {
		t.Run(name, func(t *testing.T) { testAwake(t, read) })
	}
}

func repeat(step func(func([]Packet)) error, handle func([]Packet)) error {
	for {
		if err := step(handle); err != nil {
			return err
		}
	}
}

func readBatches(s Socket, handle func([]Packet)) error {
	ps := make([]Packet, 1)
	for {
		n, err := s.ReadBatch(ps)
		if err != nil {
			return err
		}
		handle(ps[:n])
	}
}

func testAwake(t *testing.T, read func(s Socket, handle func([]Packet)) error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPair(t, socketMakers["platform"], "udp4", "udp4", "127.0.0.1", false)
	other := exec.Command(os.Args[0], "-test.run=^TestAwake$")
	other.Env = append(os.Environ(), awakeVar+"="+p.serverAddr.String())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	n := 0
	err := read(p.server, func(ps []Packet) {
		before := n
		n += len(ps)
		// The first, and the last, after which no packet tells the scheduler.
		if before == 0 || n == awakePackets {
			computeUntilTimer(t)
		}
		if n == awakePackets {
			p.server.Close()
		}
	})
	if !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// computeUntilTimer makes no system call of which the scheduler knows.
func computeUntilTimer(t *testing.T) {
	const limit = 5 * time.Second
	rang := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(rang) })
	for end := time.Now().Add(limit); time.Now().Before(end); {
		select {
		case <-rang:
			return
		default:
		}
	}
	t.Error("a timer of 1 ms has to wait for a computation of", limit)
}

// sendAwake sends a packet once the other process has become idle, and a while
// later many with short pauses, in which it becomes idle too. If it does not, the
// packets test nothing, but nothing fails either.
func sendAwake(t *testing.T, to string) {
	c, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for i := range awakePackets {
		<-pause.C
		if _, err := c.Write([]byte{byte(i)}); err != nil {
			t.Error(err)
		}
		if i == 1 {
			pause.Reset(200 * time.Microsecond)
		}
	}
}
