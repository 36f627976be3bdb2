package netcode

import (
	"testing"
	"time"
)

// TestKeepAliveInterval: without a configured interval, keep alives are frequent
// until both sides know that there is a session, and then as rare as the timeout
// allows.
func TestKeepAliveInterval(t *testing.T) {
	last := time.Unix(1000, 0)
	for _, tt := range []struct {
		interval, timeout time.Duration
		confirmed, spoken bool
		want              time.Duration
	}{
		{0, 10 * time.Second, true, true, time.Second},
		{0, 60 * time.Second, true, true, time.Second},
		{0, 5 * time.Second, true, true, 500 * time.Millisecond},
		{0, 0, true, true, time.Second},
		{0, 10 * time.Second, false, true, 100 * time.Millisecond},
		{0, 10 * time.Second, true, false, 100 * time.Millisecond},
		{100 * time.Millisecond, 10 * time.Second, true, true, 100 * time.Millisecond},
		{3 * time.Second, 10 * time.Second, false, false, 3 * time.Second},
	} {
		s := session{interval: tt.interval, timeout: tt.timeout, confirmed: tt.confirmed, spoken: tt.spoken}
		s.send.last = last
		if got := s.keepAliveAt().Sub(last); got != tt.want {
			t.Errorf("%+v: the next keep alive after %v, want %v", tt, got, tt.want)
		}
	}
	if s, err := newSettings(nil); err != nil || s.interval != 0 {
		t.Errorf("the default interval is %v, %v, want 0", s.interval, err)
	}
}
