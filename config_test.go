package volley

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/inner"
	"volley/internal/pattern"
	"volley/simnet"
)

func TestConfigDefaults(t *testing.T) {
	s, err := newSettings(nil, datagram.MaxUDP, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.maxMessage != 16384 || s.reliable.FragmentSize != 1024 || s.reliable.MaxFragments != 16 {
		t.Errorf("sizes %d, %d, %d, want 16384, 1024, 16", s.maxMessage, s.reliable.FragmentSize, s.reliable.MaxFragments)
	}
	if s.reliable.AckDelay != 125*time.Millisecond || s.keepAlive != 5*time.Second || s.idleTimeout != 30*time.Second {
		t.Errorf("times %v, %v, %v, want 125ms, 5s, 30s", s.reliable.AckDelay, s.keepAlive, s.idleTimeout)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, test := range []struct {
		field string
		limit string // must be in the text
		cfg   Config
		max   int // of a datagram below; 0: UDP
	}{
		{"Config.FragmentSize", "-1", Config{FragmentSize: -1}, 0},
		{"Config.FragmentAbove", "-5", Config{FragmentAbove: -5}, 0},
		{"Config.MaxMessageSize", "-2", Config{MaxMessageSize: -2}, 0},
		{"Config.MaxMessageSize", "256", Config{MaxMessageSize: 300_000, FragmentSize: 1000}, 0},
		{"Config.FragmentSize", "65493", Config{FragmentSize: 65500, MaxMessageSize: 100_000}, 0},
		{"Config.FragmentSize", "1186", Config{FragmentSize: 1187, FragmentAbove: 1000}, 1200},
		{"Config.FragmentAbove", "1191", Config{FragmentAbove: 1192, FragmentSize: 1000}, 1200},
		{"Config.FragmentSize", "1191", Config{FragmentSize: 1200}, 1200},
		{"Config.FragmentSize", "70000 is more than 65507", Config{FragmentSize: 70000}, 0},
		{"Config.ReadBuffer", "16396", Config{ReadBuffer: 1000}, 0},
		{"Config.ReassemblyBuffer", "16384", Config{ReassemblyBuffer: 1000}, 0},
		{"Config.KeepAlive", "30s", Config{KeepAlive: time.Minute}, 0},
		{"Config.IdleTimeout", "1ns", Config{IdleTimeout: 1}, 0}, // of which a third is nothing
		{"Config.FragmentSize", "65507", Config{FragmentSize: math.MaxInt32}, 0},
		{"Config.FragmentSize", "65507", Config{FragmentSize: math.MaxInt/256 + 1}, 0}, // 256 times overflow
		{"Config.FragmentSize", "65507", Config{FragmentSize: math.MaxInt, MaxMessageSize: math.MaxInt}, 0},
	} {
		max := test.max
		if max == 0 {
			max = datagram.MaxUDP
		}
		_, err := newSettings(&test.cfg, max, nil)
		var ce *ConfigError
		if !errors.As(err, &ce) {
			t.Errorf("%+v: error %v, want a *ConfigError", test.cfg, err)
			continue
		}
		if ce.Field != test.field || !strings.Contains(ce.Reason, test.limit) {
			t.Errorf("%+v: %v, want field %s and limit %s", test.cfg, err, test.field, test.limit)
		}
	}
}

func TestConfigFits(t *testing.T) {
	for _, cfg := range []Config{
		{FragmentSize: 1186, FragmentAbove: 1191},
		{MaxMessageSize: 8192},
		{MaxMessageSize: 256 * 1024},
		{MaxMessageSize: 100, FragmentSize: 60000},
		*ReferenceConfig(),
	} {
		if _, err := newSettings(&cfg, 1200, nil); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Everything that takes a Config refuses a bad one, each in its way.
func TestBadConfigEverywhere(t *testing.T) {
	bad := &Config{FragmentSize: -1}
	var ce *ConfigError
	if _, err := (&Dialer{Config: bad}).Dial(context.Background(), "udp", "127.0.0.1:9"); !errors.As(err, &ce) {
		t.Errorf("Dial: %v", err)
	}
	if _, err := (&ListenConfig{Config: bad}).Listen(context.Background(), "udp", "127.0.0.1:0"); !errors.As(err, &ce) {
		t.Errorf("Listen: %v", err)
	}
	x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
	if _, err := NewConn(x, bad); !errors.As(err, &ce) {
		t.Errorf("NewConn: %v", err)
	}
	if err := errors.Join(x.Close(), y.Close()); err != nil {
		t.Errorf("Close: %v, want what was given open", err)
	}
	require.Panics(t, func() { Pipe(bad) })
}

// A failed ListenOn leaves the socket to the caller.
func TestListenOnFails(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lc := ListenConfig{Config: &Config{FragmentSize: -1}}
	if _, err := lc.ListenOn(pc); err == nil {
		t.Fatal("ListenOn: no error")
	}
	if err := pc.Close(); err != nil {
		t.Errorf("Close: %v, want the socket open", err)
	}
}

// An idle timeout alone does not make a contradictory Config.
func TestShortIdleTimeout(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 5 * time.Second, 6 * time.Second, time.Minute} {
		s, err := newSettings(&Config{IdleTimeout: d}, datagram.MaxUDP, nil)
		if err != nil {
			t.Errorf("IdleTimeout %v: %v", d, err)
		} else if want := min(defaultKeepAlive, d/3); s.keepAlive != want {
			t.Errorf("IdleTimeout %v: keepalive %v, want %v", d, s.keepAlive, want)
		}
	}
}

// TestLongDurations: what is too long to be reckoned with is never, and does not
// overflow: a tick that lies in the past would follow upon another at once.
func TestLongDurations(t *testing.T) {
	for _, long := range []time.Duration{century - 1, century, century + 1, math.MaxInt64 - 1, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{LostAfter: long, IdleTimeout: long, KeepAlive: -1, AckDelay: -1}
			a, b := netPipe(1, simnet.Link{Loss: 1}, simnet.Link{}, &cfg)
			defer a.Close()
			defer b.Close()
			for range 3 {
				time.Sleep(time.Minute)
				a.Write([]byte("is lost"))
				now := time.Now() // before the bubble's clock stands still
				if next := (*handler)(a).HandleTick(now, nil); !next.IsZero() && next.Sub(now) < time.Second {
					t.Fatalf("the next tick is %v away, with durations of %v", next.Sub(now), long)
				}
			}
			if n := a.Stats().MessagesLost; n != 0 {
				t.Errorf("%d messages are lost after some minutes, with LostAfter %v", n, long)
			}
		})
	}
}

// Sizes at the edges of what a Config may say.
func TestExtremeConfigs(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  Config
	}{
		{"bytes", Config{FragmentSize: 1, MaxMessageSize: 256}},
		{"huge", Config{FragmentSize: 32768, MaxMessageSize: 256 * 32768}},
		{"one at a time", Config{ReadBuffer: 16384 + 12, ReassemblyBuffer: 16384 + inner.ReassemblyOverhead}},
		{"one byte", Config{FragmentSize: 1, MaxMessageSize: 1, ReadBuffer: 13, ReassemblyBuffer: 1 + inner.ReassemblyOverhead}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := Pipe(&test.cfg)
				defer b.Close()
				defer a.Close()
				size := func(i int) int { return max(1, a.MaxMessageSize()-i%2) }
				go func() {
					for i := range 5 {
						if _, err := a.Write(pattern.New(uint32(i), size(i))); err != nil {
							t.Errorf("Write: %v", err)
						}
					}
				}()
				for i := range 5 {
					msg, err := b.ReadMessage(context.Background(), nil)
					if err != nil {
						t.Fatal(err)
					}
					if want := size(i); len(msg) != want {
						t.Errorf("message %d of %d bytes, want %d", i, len(msg), want)
					}
				}
			})
		})
	}
}

// A negative number is an error, or off as the comment of the field says. It means nothing
// else.
func TestNegativeIsOffOrAnError(t *testing.T) {
	source, err := os.ReadFile("config.go")
	require.NoError(t, err)
	typ, numbers := reflect.TypeFor[Config](), 0
	for i := range typ.NumField() {
		f := typ.Field(i)
		if !f.IsExported() || !f.Type.ConvertibleTo(reflect.TypeFor[float64]()) || f.Type.Kind() == reflect.Uint64 {
			continue
		}
		numbers++
		var cfg Config
		reflect.ValueOf(&cfg).Elem().Field(i).SetInt(-1)
		_, err := newSettings(&cfg, datagram.MaxUDP, nil)
		if err != nil {
			var ce *ConfigError
			require.ErrorAs(t, err, &ce, f.Name)
			require.Equal(t, "Config."+f.Name, ce.Field)
			continue
		}
		comment := regexp.MustCompile(`((?:\t//.*\n)+)\t` + f.Name + ` `).FindSubmatch(source)
		require.NotNil(t, comment, f.Name)
		require.Contains(t, string(comment[1]), "Negative", f.Name)
	}
	require.Equal(t, 11, numbers)
}
