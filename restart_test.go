package volley

import (
	"testing"
	"testing/synctest"
	"time"
)

// A client that starts again on its port while the server still has its old
// connection learns Delivered of no message that the server's Read did not
// return: the old connection acknowledges what the former client sent.
func TestRestartedClientLearnsTheTruth(t *testing.T) {
	for _, former := range []int{20, 60, 1000} {
		synctest.Test(t, func(t *testing.T) {
			_, l, dial := network(t, &ListenConfig{})
			c := dial("10.0.0.2:5000", &Dialer{})
			for i := range former {
				c.Write(pattern(uint32(i), 50))
				if i%10 == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
			s := accept(t, l)
			time.Sleep(time.Second)
			c.Close()
			defer s.Close()

			c = dial("10.0.0.2:5000", &Dialer{})
			defer c.Close()
			numbers := make(map[uint64]uint32)
			fates := make(map[uint32]Fate)
			learn := func() {
				for _, r := range c.AppendReceipts(nil) {
					fates[numbers[r.ID]] = r.Fate
				}
			}
			for i := range 400 {
				number := uint32(100_000 + i)
				id, err := c.WriteMessage(pattern(number, 50))
				if err != nil {
					t.Fatal(err)
				}
				numbers[id] = number
				if i%20 == 0 {
					s.Write([]byte("carries an acknowledgement"))
				}
				time.Sleep(50 * time.Millisecond)
				learn()
			}
			time.Sleep(11 * time.Second) // time decides the last
			learn()
			read := make(map[uint32]bool)
			s.SetReadDeadline(time.Now().Add(time.Millisecond))
			for {
				m, err := s.ReadMessage(nil)
				if err != nil {
					break
				}
				n, err := checkPattern(m)
				if err != nil {
					t.Fatal(err)
				}
				read[n] = true
			}
			delivered := 0
			for n, fate := range fates {
				if fate == Delivered {
					delivered++
				}
				if fate == Delivered && !read[n] {
					t.Errorf("%d former messages: message %d of the new client is Delivered, and nobody received it", former, n)
				}
			}
			if former < 400 && delivered < 400-former-10 {
				t.Errorf("%d former messages: %d of 400 Delivered", former, delivered)
			}
			if c.Stats().AcksInvalid == 0 {
				t.Errorf("%d former messages: no invalid ack was counted", former)
			}
		})
	}
}
