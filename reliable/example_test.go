package reliable_test

import (
	"fmt"
	"time"

	"volley/reliable"
)

// An application is a Handler.
type application struct{ name string }

func (a application) HandleMessage(sequence uint16, payload []byte) bool {
	fmt.Printf("%s received packet %d: %s\n", a.name, sequence, payload)
	return true
}

// Two endpoints, and a network that is a function call.
func Example() {
	now := time.Now()
	alice, err := reliable.New(nil, now, application{"alice"})
	if err != nil {
		fmt.Println(err)
		return
	}
	bob, err := reliable.New(nil, now, application{"bob"})
	if err != nil {
		fmt.Println(err)
		return
	}
	send := func(from, to *reliable.Endpoint, message string) {
		var out reliable.Batch
		if _, err := from.Send(now, []byte(message), &out); err != nil {
			fmt.Println(err)
		}
		for i := range out.Len() {
			to.Receive(now, out.At(i))
		}
	}
	send(alice, bob, "hello")
	send(alice, bob, "are you there?")
	now = now.Add(50 * time.Millisecond)
	send(bob, alice, "yes")
	alice.Update(now)
	fmt.Println("acknowledged to alice:", alice.Acks())
	fmt.Printf("round trip: %.0f ms\n", alice.Stats().RTT)
	// Output:
	// bob received packet 0: hello
	// bob received packet 1: are you there?
	// alice received packet 0: yes
	// acknowledged to alice: [1 0]
	// round trip: 50 ms
}

// A sender that wants to know what became of its packets is a FateHandler.
type sender struct{}

func (sender) HandleMessage(uint16, []byte) bool { return true }

func (sender) HandleFate(id uint64, fate reliable.Fate, rtt time.Duration) {
	fmt.Println("packet", id, "is", fate, "after", rtt)
}

func ExampleFateHandler() {
	now := time.Now()
	cfg := &reliable.Config{AckDelay: 10 * time.Millisecond}
	from, _ := reliable.New(cfg, now, sender{})
	to, _ := reliable.New(cfg, now, nil)
	var out reliable.Batch
	for range 3 {
		_, _ = from.Send(now, []byte("data"), &out)
	}
	to.Receive(now, out.At(0))
	to.Receive(now, out.At(2)) // packet 1 is lost
	now = now.Add(20 * time.Millisecond)

	// The other side has nothing to say, but owes an ack.
	if wait, ok := to.ControlDue(now); ok && wait == 0 {
		out.Reset()
		to.SendControl(now, &out)
		from.Receive(now, out.At(0))
	}
	fmt.Println("in flight:", from.InFlight())
	// Output:
	// packet 65538 is Delivered after 20ms
	// packet 65536 is Delivered after 20ms
	// in flight: 1
}

func ExampleParseHeader() {
	datagram := []byte{0x22, 0xe8, 0x03, 0x64, 0xfb, 'h', 'i'}
	header, n, err := reliable.ParseHeader(datagram)
	fmt.Printf("%+v %q %v\n", header, datagram[n:], err)
	// Output:
	// {Sequence:1000 Ack:900 AckBits:4294967291} "hi" <nil>
}
