package simnet

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pair(1, Link{Latency: 50 * time.Millisecond}, Link{Latency: 20 * time.Millisecond})
		defer a.Close()
		defer b.Close()
		start := time.Now()
		for _, step := range []struct {
			from, to *Conn
			want     time.Duration
		}{{a, b, 50 * time.Millisecond}, {b, a, 70 * time.Millisecond}} {
			if _, err := step.from.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 10)
			n, err := step.to.Read(buf)
			if err != nil || string(buf[:n]) != "hello" {
				t.Fatalf("Read = %q, %v, want hello", buf[:n], err)
			}
			if got := time.Since(start); got != step.want {
				t.Errorf("arrived after %v, want %v", got, step.want)
			}
		}
	})
}
