package volley

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// messagesOf returns what c reads until its deadline or the end.
func messagesOf(c *Conn) (all []string) {
	c.SetReadDeadline(time.Now().Add(time.Second))
	for {
		m, err := c.ReadMessage(nil)
		if err != nil {
			return all
		}
		all = append(all, string(m))
	}
}

// What the helpers of the standard library do to messages is as package volley's
// documents say.
func TestHelpersForStreams(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, a, b *Conn){
		"net.Buffers": func(t *testing.T, a, b *Conn) {
			bufs := net.Buffers{[]byte("one"), []byte("two")}
			n, err := bufs.WriteTo(a)
			require.NoError(t, err)
			require.EqualValues(t, 6, n)
			require.Equal(t, []string{"one", "two"}, messagesOf(b))
		},
		"io.Copy to": func(t *testing.T, a, b *Conn) {
			_, err := io.Copy(a, io.LimitReader(strings.NewReader(strings.Repeat("x", 10_000)), 10_000))
			require.NoError(t, err)
			require.Len(t, messagesOf(b), 1)
			_, err = io.Copy(a, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 40_000))})
			_, ok := errors.AsType[*MessageTooLargeError](err)
			require.True(t, ok, "%v", err)
			_, err = io.CopyBuffer(struct{ io.Writer }{a}, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 2500))}, make([]byte, 1000))
			require.NoError(t, err)
			require.Len(t, messagesOf(b), 3)
		},
		"io.Copy from": func(t *testing.T, a, b *Conn) {
			a.Write([]byte("one"))
			a.Write([]byte("two"))
			b.SetReadDeadline(time.Now().Add(time.Second))
			var all bytes.Buffer
			_, err := io.Copy(&all, b)
			wantTimeout(t, "io.Copy", err)
			require.Equal(t, "onetwo", all.String()) // where one begins is lost
		},
		"bufio.Writer": func(t *testing.T, a, b *Conn) {
			w := bufio.NewWriterSize(a, 16)
			w.WriteString("one")
			w.WriteString("two")
			w.WriteString("a string of more than the buffer")
			w.Flush()
			got := messagesOf(b)
			require.Equal(t, "onetwoa string of more than the buffer", strings.Join(got, ""))
			require.NotContains(t, got, "one")
		},
		"bufio.Reader": func(t *testing.T, a, b *Conn) {
			a.Write([]byte("line\n"))
			a.Write(make([]byte, 100))
			r := bufio.NewReaderSize(b, 16)
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "line\n", line)
			for err == nil {
				_, err = r.ReadByte()
			}
			require.ErrorIs(t, err, io.ErrShortBuffer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := Pipe(nil)
				defer a.Close()
				defer b.Close()
				f(t, a, b)
			})
		})
	}
}
