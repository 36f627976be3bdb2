package stacktest

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/testenv"
	"volley/netcode"
	"volley/porous"
)

// A message of each length from 0 to 65,536 arrives whole, or is an error of its own kind and
// sends nothing: with volley, netcode, volley over that, and porous. By default some lengths
// are left out in the middle.
func TestEveryLength(t *testing.T) {
	const most = 1 << 16
	next := func(n int) int { return n + testenv.Sized(1+n%97, 1) }
	whole := make([]byte, most)
	for i := range whole {
		whole[i] = byte(i * 7)
	}
	each := func(t *testing.T, empty bool, limit int, write func([]byte) (int, error), sent func() uint64, tooLarge func(error) bool, read func([]byte) (int, error)) {
		buf := make([]byte, most+1)
		check := func(n int) {
			before := sent()
			written, err := write(whole[:n])
			if n > limit {
				require.True(t, tooLarge(err), "%d bytes: %v", n, err)
				require.Zero(t, written)
				require.Equal(t, before, sent(), "%d bytes", n)
				return
			}
			require.NoError(t, err, "%d bytes", n)
			if n == 0 && !empty {
				return // no message
			}
			got, err := read(buf)
			require.NoError(t, err)
			require.Equal(t, whole[:n], buf[:got])
		}
		for n := 0; n <= most; n = next(n) {
			check(n)
		}
		for n := max(0, limit-20); n <= min(most, limit+20); n++ {
			check(n)
		}
	}
	volleys := func(t *testing.T, a, b *volley.Conn) {
		each(t, false, a.MaxMessageSize(), a.Write, func() uint64 { return a.Stats().PacketsSent },
			func(err error) bool { _, ok := errors.AsType[*volley.MessageTooLargeError](err); return ok }, b.Read)
	}
	for name, f := range map[string]func(t *testing.T){
		"volley": func(t *testing.T) {
			a, b := volley.Pipe(nil)
			defer a.Close()
			defer b.Close()
			volleys(t, a, b)
		},
		"netcode": func(t *testing.T) {
			a, b := netcode.Pipe(1, nil)
			defer a.Close()
			defer b.Close()
			each(t, false, a.MaxMessageSize(), a.Write, func() uint64 { return a.Stats().PacketsSent },
				func(err error) bool { _, ok := errors.AsType[*netcode.MessageTooLargeError](err); return ok }, b.Read)
		},
		"volley over netcode": func(t *testing.T) {
			x, y := netcode.Pipe(1, nil)
			a, b := newConn(x, nil), newConn(y, nil)
			defer a.Close()
			defer b.Close()
			volleys(t, a, b)
		},
		"porous": func(t *testing.T) {
			a, b := porous.Pipe(&porous.Config{MaxMessageSize: 20_000})
			defer a.Close()
			defer b.Close()
			each(t, true, a.MaxMessageSize(), func(m []byte) (int, error) { return a.Channel(0).Write(m) }, func() uint64 { return a.Stats().FramesSent },
				func(err error) bool { _, ok := errors.AsType[*porous.MessageTooLargeError](err); return ok }, b.Channel(0).Read)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}
