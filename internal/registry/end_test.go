package registry

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// The last connections that have ended are remembered, whatever their listener or set, and
// not more than so many.
func TestEnds(t *testing.T) {
	var all Ended
	set := NewConns(Dialed, func(c *fakeConn) Viewer { return c })
	before := time.Now()
	var last *fakeConn
	for i := range 3 * maxEnds {
		last = &fakeConn{over: true, why: fmt.Errorf("fake: end %d", i)}
		all.Add(last, 7)
		require.LessOrEqual(t, len(Ends()), maxEnds)
	}
	ends := Ends()
	require.Len(t, ends, maxEnds)
	for i, e := range ends {
		require.Equal(t, fmt.Sprintf("end %d", 3*maxEnds-1-i), e.Reason, "the newest come first, without the name of the protocol")
		require.False(t, e.Time.Before(before))
	}
	e := ends[0]
	require.Equal(t, End{ID: last.ID(), Listener: 7, Protocol: "fake", Role: Accepted, Time: e.Time, Reason: e.Reason}, e)
	for want, why := range map[string]error{
		"closed": net.ErrClosed, "closed by the peer": io.EOF, "other: x": errors.New("other: x"),
	} {
		set.Ended(&fakeConn{over: true, why: why})
		require.Equal(t, want, Ends()[0].Reason)
		require.Equal(t, Dialed, Ends()[0].Role)
	}
}

// The words of a peer are bounded, and none of them does anything to a terminal.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"kicked: über 日本":         "kicked: über 日本",
		"a\nb\x1b[2Jc\x00\u202ed": "a?b?[2Jc??d",
		"\xff\xfe":                "\uFFFD\uFFFD",
		strings.Repeat("x", 5000): strings.Repeat("x", maxText-3) + "…",
		strings.Repeat("日", 5000): strings.Repeat("日", (maxText-3)/3) + "…",
	} {
		got := plain(text)
		require.Equal(t, want, got)
		require.LessOrEqual(t, len(got), maxText)
	}
}

// The memory of an end keeps no connection, and none of its parts, alive.
func TestEndsKeepNothing(t *testing.T) {
	type parts struct {
		fakeConn
		text [1 << 16]byte
	}
	var all Ended
	var made []weak.Pointer[parts]
	for range maxEnds {
		c := new(parts)
		c.over, c.remote = true, &partAddr{c.text[:]}
		c.why = &partError{c.text[:]}
		all.Add(&c.fakeConn, 1)
		made = append(made, weak.Make(c))
	}
	runtime.GC()
	runtime.GC()
	for _, w := range made {
		require.Nil(t, w.Value())
	}
	require.Len(t, Ends(), maxEnds)
}

// A partAddr and a partError hold a part of a connection.
type partAddr struct{ text []byte }

func (a *partAddr) Network() string { return "part" }
func (a *partAddr) String() string  { return string(a.text) }

type partError struct{ text []byte }

func (e *partError) Error() string { return string(e.text) }

// Connections that end at once, while somebody looks, all count.
func TestEndsAtOnce(t *testing.T) {
	var r record
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				r.add(End{ID: uint64(i)})
				if i%100 == 0 {
					require.NotEmpty(t, r.list())
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 4000, r.next)
	require.Len(t, r.list(), maxEnds)
}

// BenchmarkEnds is what the memory of ended connections costs each that ends.
func BenchmarkEnds(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := Conn{Protocol: "volley", Remote: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}}
		for pb.Next() {
			recent.add(endOf(&c, Accepted, io.EOF))
		}
	})
}
