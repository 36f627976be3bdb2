// Command telemetry sends readings one way over a link that loses some of
// them, learns from receipts which, and sends those again.
//
//	go run ./examples/telemetry -loss 0.2
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
	loss := flag.Float64("loss", 0.1, "share of datagrams lost, 0 to 1")
	n := flag.Int("n", 300, "readings to take, 100 a second")
	flag.Parse()

	link := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: *loss}
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

// report sends n readings, 100 a second, and those that get lost once more. It
// closes c.
func report(c *volley.Conn, n int) (r result, err error) {
	defer c.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	pending := make(map[uint64][]byte) // by the number of the message
	send := func(reading []byte) error {
		id, err := c.WriteMessage(reading)
		pending[id] = reading
		return err
	}
	var receipts []volley.Receipt
	for i := range n {
		if err := send(measure(i)); err != nil {
			return r, err
		}
		receipts = c.AppendReceipts(receipts[:0])
		for _, receipt := range receipts {
			reading := pending[receipt.ID]
			delete(pending, receipt.ID)
			if receipt.Fate == volley.Delivered {
				r.acknowledged++
				continue
			}
			r.repeated++
			if err := send(reading); err != nil {
				return r, err
			}
		}
		<-tick.C
	}
	r.open = len(pending)
	return r, nil
}

// measure makes a message of the number and the time of a reading.
func measure(i int) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(i))
	return binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixNano()))
}
