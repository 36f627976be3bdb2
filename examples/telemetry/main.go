// Command telemetry sends readings one way over a link that loses some of
// them, learns from receipts which, and sends those again until all have arrived.
//
//	go run ./examples/telemetry -loss 20
//
// That is as much reliability as a few lines can have: readings arrive late and
// out of order, some twice, and nothing slows the sensor down when the network is
// full. For order, or bulk, use a channel of volley/porous.
package main

import (
	"context"
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
	x, y := simnet.Pair(1, link, link)
	a, err := volley.NewConn(x, nil)
	if err != nil {
		log.Fatal(err)
	}
	b, err := volley.NewConn(y, nil)
	if err != nil {
		log.Fatal(err)
	}
	seen := make(chan int)
	go func() { seen <- collect(b) }()

	s := sensor{conn: a, open: make(map[uint64][]byte)}
	err = s.run(*n)
	b.Close()
	fmt.Printf("%d readings: %d acknowledged, %d open at the end; %d messages lost and sent again\n",
		*n, s.acknowledged, len(s.open), s.repeated)
	fmt.Printf("the station has %d of them\n", <-seen)
	if err != nil {
		log.Fatal(err)
	}
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

// flushTime limits how long the last readings are sent again and again.
const flushTime = 20 * time.Second

// A sensor remembers what it has sent until there is a receipt for it.
type sensor struct {
	conn     *volley.Conn
	open     map[uint64][]byte // by the number of the message
	receipts []volley.Receipt

	acknowledged, repeated int
}

// run sends n readings, 100 a second, and sees to it that they arrive. It closes
// the connection.
func (s *sensor) run(n int) error {
	defer s.conn.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		if err := s.send(measure(i)); err != nil {
			return err
		}
		s.receipts = s.conn.AppendReceipts(s.receipts[:0])
		if err := s.settle(); err != nil {
			return err
		}
		<-tick.C
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	return s.flush(ctx)
}

// flush returns when all readings have arrived. Each message has its receipt in
// the end, so this waits for nothing in vain; but a peer that is gone
// acknowledges nothing, and then the context ends it, or the connection's idle
// timeout.
func (s *sensor) flush(ctx context.Context) (err error) {
	for len(s.open) > 0 && err == nil {
		if s.receipts, err = s.conn.WaitReceipts(ctx, s.receipts[:0]); err == nil {
			err = s.settle()
		}
	}
	return err
}

func (s *sensor) send(reading []byte) error {
	id, err := s.conn.WriteMessage(reading)
	if err == nil {
		s.open[id] = reading
	}
	return err
}

// settle looks at the receipts that have come, and sends again what was lost.
func (s *sensor) settle() error {
	for _, receipt := range s.receipts {
		reading := s.open[receipt.ID]
		delete(s.open, receipt.ID)
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
