package volley

import (
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// A dialed connection is read by the callers of its Read. What arrives while
// there are none is acknowledged all the same.
func TestAcksWithoutReader(t *testing.T) {
	client, server := udpPair(t, nil)
	for round := range 5 {
		server.Write([]byte("read me"))
		client.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := client.ReadMessage(nil); err != nil {
			t.Fatal(err)
		}
		want := server.Stats().MessagesDelivered + 100
		for range 100 {
			server.Write([]byte("nobody reads this for a while"))
		}
		for end := time.Now().Add(10 * time.Second); server.Stats().MessagesDelivered < want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d: %d of %d messages acknowledged", round, server.Stats().MessagesDelivered, want)
			}
		}
		for range 100 {
			if _, err := client.ReadMessage(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Readers with and without deadlines take turns at the socket, and none is
// forgotten.
func TestReadersTakeTurns(t *testing.T) {
	client, server := udpPair(t, nil)
	const readers, messages = 4, 400
	var wg sync.WaitGroup
	got := make(chan struct{}, messages)
	for i := range readers {
		wg.Go(func() {
			for {
				if i%2 == 0 {
					client.SetReadDeadline(time.Now().Add(time.Duration(i+1) * time.Millisecond))
				}
				_, err := client.ReadMessage(nil)
				switch {
				case err == nil:
					got <- struct{}{}
				case os.IsTimeout(err):
				default:
					wantErr(t, "Read", err, net.ErrClosed)
					return
				}
			}
		})
	}
	for i := range messages {
		server.Write(pattern(uint32(i), 100))
		if i%7 == 0 {
			time.Sleep(time.Duration(i%11) * time.Millisecond)
		}
	}
	timeout := time.After(20 * time.Second)
	for i := range messages {
		select {
		case <-got:
		case <-timeout:
			t.Fatalf("%d of %d messages read", i, messages)
		}
	}
	client.Close()
	wg.Wait()
}

// A deadline set while the socket is being read counts at once, in both
// directions.
func TestDeadlineOfInlineRead(t *testing.T) {
	client, server := udpPair(t, nil)
	done := make(chan error, 1)
	read := func() {
		_, err := client.ReadMessage(nil)
		done <- err
	}
	for i := range 50 {
		client.SetReadDeadline(time.Now().Add(time.Hour))
		go read()
		if i%2 == 0 {
			time.Sleep(time.Millisecond)
		}
		client.SetReadDeadline(time.Now().Add(-time.Second))
		wantTimeout(t, "Read with a deadline that was moved to the past", <-done)

		client.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		go read()
		client.SetReadDeadline(time.Time{})
		if i%5 == 0 {
			time.Sleep(60 * time.Millisecond)
		}
		server.Write([]byte("x"))
		if err := <-done; err != nil {
			t.Fatalf("Read with a deadline that was taken away: %v", err)
		}
	}
}
