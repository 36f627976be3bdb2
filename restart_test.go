package volley

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/pattern"
	"volley/simnet"
)

// A client that starts again on its port while the server still has its old
// connection learns Delivered of no message that the server's Read did not
// return: the old connection acknowledges what the former client sent. Where some
// of that got lost, it takes messages of the new client for what is missing, and
// acknowledges those in packets of their own. That is so with a server of an older
// version, where both clients begin at 0. Others hear the new client
// at once.
func TestRestartedClientLearnsTheTruth(t *testing.T) {
	for _, former := range []int{20, 60, 120, 1000} {
		for _, loss := range []float64{0, 0.1} {
			for _, every := range []int{1, 20, 1 << 30} {
				for _, older := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) { testRestartedClient(t, former, loss, every, older) })
				}
			}
		}
	}
}

// testRestartedClient is one case: the former client's messages, their loss, and
// after how many of the new client's the server writes one, and whether it is of an
// older version.
func testRestartedClient(t *testing.T, former int, loss float64, every int, older bool) {
	n, l, dial := network(t, &ListenConfig{})
	var starts []int
	d := &Dialer{Config: &Config{firstSequence: func() int {
		starts = append(starts, rand.IntN(1<<16))
		return starts[len(starts)-1]
	}}}
	if older {
		l.set.reliable.MidStream = false
		d.Config = &Config{firstSequence: startsAt(0)}
	}
	c := dial("10.0.0.2:5000", d)
	for i := range former {
		c.Write(pattern.New(uint32(i), 50))
		if i%10 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if i == 0 {
			n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Loss: loss})
		}
	}
	s := accept(t, l)
	n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
	time.Sleep(time.Second)
	kill(c)
	defer s.Close()

	c = dial("10.0.0.2:5000", d)
	defer c.Close()
	fates := writeNumbered(t, c, 400, func(i int) {
		if every < 1<<30 && i%every == 0 {
			s.Write([]byte("carries an acknowledgement"))
		}
	})
	read := readPatterns(t, s)
	delivered := 0
	for n, fate := range fates {
		if fate == Delivered {
			delivered++
		}
		if fate == Delivered && !read[n] {
			t.Errorf("%d former messages, loss %v, one in %d: message %d of the new client is Delivered, and nobody received it",
				former, loss, every, n)
		}
	}
	// A start that lies in the window of the former packets is taken for one of them, at first.
	near := !older && uint16(starts[1]-starts[0]-former+128) < 256
	if !older && !near && delivered < 390 || former < 400 && !near && delivered < 400-former-10 {
		t.Errorf("%d former messages, loss %v, one in %d: %d of 400 Delivered", former, loss, every, delivered)
	}
	if older && c.Stats().AcksInvalid == 0 {
		t.Errorf("%d former messages, loss %v, one in %d: no invalid ack was counted", former, loss, every)
	}
}

// writeNumbered writes n messages, numbered from 100,000 on, twenty a second, and
// returns what became of them. It calls each after every one.
func writeNumbered(t *testing.T, c *Conn, n int, each func(i int)) map[uint32]Fate {
	numbers, fates := make(map[uint64]uint32), make(map[uint32]Fate)
	learn := func() {
		for _, r := range c.AppendReceipts(nil) {
			fates[numbers[r.ID]] = r.Fate
		}
	}
	for i := range n {
		number := uint32(100_000 + i)
		id, err := c.WriteMessage(pattern.New(number, 50))
		if err != nil {
			t.Fatal(err)
		}
		numbers[id] = number
		each(i)
		time.Sleep(50 * time.Millisecond)
		learn()
	}
	time.Sleep(11 * time.Second) // time decides the last
	learn()
	return fates
}

// readPatterns returns the numbers of the messages that wait to be read.
func readPatterns(t *testing.T, c *Conn) map[uint32]bool {
	read := make(map[uint32]bool)
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	for {
		m, err := c.ReadMessage(context.Background(), nil)
		if err != nil {
			return read
		}
		n, err := pattern.Check(m)
		if err != nil {
			t.Fatal(err)
		}
		read[n] = true
	}
}
