// Command telemetry sends readings one way over a link that loses some of
// them, learns from receipts which, and sends those again.
//
//	go run ./examples/telemetry -loss 20
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"time"

	"volley"
	"volley/simnet"
)

func main() {
	log.SetFlags(0)
	loss := flag.Float64("loss", 10, "`percent` of the datagrams that are lost, each way, 0 to 100")
	n := flag.Int("n", 300, "`number` of readings to take, 1 or more, 100 a second")
	flag.Parse()
	if !(*loss >= 0 && *loss <= 100) {
		log.Fatalf("-loss must be from 0 to 100 (percent), not %v", *loss)
	}
	if *n < 1 {
		log.Fatalf("-n must be at least 1, not %d", *n)
	}

	link := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: *loss / 100}
	sensor, station := volley.Pipe(&volley.PipeConfig{AtoB: link, BtoA: link, Seed: 1})
	seen := make(chan int)
	go func() { seen <- collect(station) }()

	r, err := report(sensor, *n)
	if err != nil {
		log.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // the last ones are under way
	station.Close()
	fmt.Printf("%d readings: %d acknowledged, %d open at the end; %d messages lost and sent again\n",
		*n, r.acknowledged, r.open, r.repeated)
	fmt.Printf("the station has %d of them\n", <-seen)
}

// collect returns how many different readings arrived on c until it ended. It
// never writes: c acknowledges on its own.
func collect(c *volley.Conn) int {
	seen := make(map[uint64]bool)
	buf := make([]byte, 16)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return len(seen)
		}
		if n == len(buf) {
			seen[binary.BigEndian.Uint64(buf)] = true
		}
	}
}

type result struct {
	acknowledged, open, repeated int
}

// report sends n readings, 100 a second, and those that get lost once more. At
// the end it waits for receipts, for a second at most: the last messages have
// none if they were lost, as nothing newer tells that they are missing. It
// closes c.
func report(c *volley.Conn, n int) (result, error) {
	defer c.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	s := sensor{conn: c, pending: make(map[uint64][]byte)}
	for i := range n {
		if err := s.send(measure(i)); err != nil {
			return s.result, err
		}
		if err := s.settle(); err != nil {
			return s.result, err
		}
		<-tick.C
	}
	for end := time.Now().Add(time.Second); len(s.pending) > 0 && time.Now().Before(end); <-tick.C {
		if err := s.settle(); err != nil {
			return s.result, err
		}
	}
	s.open = len(s.pending)
	return s.result, nil
}

// A sensor remembers what it has sent until there is a receipt for it.
type sensor struct {
	conn     *volley.Conn
	pending  map[uint64][]byte // by the number of the message
	receipts []volley.Receipt
	result
}

func (s *sensor) send(reading []byte) error {
	id, err := s.conn.WriteMessage(reading)
	if err == nil {
		s.pending[id] = reading
	}
	return err
}

// settle takes the receipts that have come, and sends again what was lost.
func (s *sensor) settle() error {
	s.receipts = s.conn.AppendReceipts(s.receipts[:0])
	for _, receipt := range s.receipts {
		reading := s.pending[receipt.ID]
		delete(s.pending, receipt.ID)
		if receipt.Fate == volley.Delivered {
			s.acknowledged++
			continue
		}
		s.repeated++
		if err := s.send(reading); err != nil {
			return err
		}
	}
	return nil
}

// measure makes a message of the number and the time of a reading.
func measure(i int) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(i))
	return binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixNano()))
}
