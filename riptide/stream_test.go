package riptide

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A streamWorld is a server on a listener in memory.
type streamWorld struct {
	t      *testing.T
	server *Server
	l      *pipeListener
	served chan error
}

func newStreamWorld(t *testing.T, s *Server) *streamWorld {
	w := &streamWorld{t, s, newPipeListener(), make(chan error, 1)}
	go func() { w.served <- s.Serve(w.l) }()
	return w
}

// conn returns a connection to the server.
func (w *streamWorld) conn() net.Conn {
	near, far := net.Pipe()
	w.l.conns <- far
	return near
}

func (w *streamWorld) mustDial(c *Client) {
	w.t.Helper()
	if err := c.ConnectOn(context.Background(), w.conn()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *streamWorld) close() {
	w.t.Helper()
	w.server.Close()
	if err := <-w.served; !errors.Is(err, net.ErrClosed) {
		w.t.Errorf("Serve = %v, want one that matches net.ErrClosed", err)
	}
	time.Sleep(2 * time.Second)
}

func TestStreamTalk(t *testing.T) {
	for _, cfg := range []*Config{nil, {NotesLayout: true}} {
		bubble(t, func(t *testing.T) {
			var j journal
			w := newStreamWorld(t, j.server(&Server{Config: cfg}))
			a, b := j.client("a", cfg), j.client("b", cfg)
			w.mustDial(a)
			time.Sleep(100 * ms)
			w.mustDial(b)
			time.Sleep(100 * ms)
			j.want(t, "server: 1 connected", "server: 2 connected", "a: 2 has come")
			a.Send(text(cfg, Reliable, 5, "hello"))
			j.want(t, "server: 1: reliable message 5: hello")
			w.server.SendAll(text(cfg, Unreliable, 6, "b"), w.server.Peer(1))
			j.want(t, "b: unreliable message 6: b")
			why := cfg.NewData()
			why.AddString("out")
			w.server.Peer(1).Kick(why)
			j.want(t, "server: 1 kicked", "a: kicked: out", "b: 1 has gone")
			b.Close()
			j.want(t, "b: disconnected", "server: 2 disconnected")
			w.close()
		})
	}
}

// TestStreamCloses: the end of a stream without a word ends the connection at
// both ends.
func TestStreamCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		w := newStreamWorld(t, j.server(&Server{}))
		a, b := j.client("a", nil), j.client("b", nil)
		conn := w.conn()
		if err := a.ConnectOn(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		w.mustDial(b)
		time.Sleep(time.Second)
		j.take()
		conn.Close()
		j.want(t, "a: transport error", "server: 1 transport error", "b: 1 has gone")
		w.server.Peer(2).s.conn.(*stream).c.Close()
		j.want(t, "b: transport error", "server: 2 transport error")
		w.close()
	})
}

// TestLyingLengths: a stream on which a length cannot be right is closed.
func TestLyingLengths(t *testing.T) {
	for _, notes := range []bool{false, true} {
		for _, n := range []uint32{0, 1 << 31, 1<<32 - 1, 1232, 1<<31 - 1} {
			bubble(t, func(t *testing.T) {
				cfg := &Config{}
				frame := binary.LittleEndian.AppendUint32(nil, n)
				if notes {
					cfg.NotesLayout = true
					frame = binary.LittleEndian.AppendUint16(nil, uint16(min(n, 1<<16-1)))
				}
				w := newStreamWorld(t, &Server{Config: cfg})
				c := w.conn()
				go c.Write(frame)
				c.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("%v, a length of %d: %v", cfg.layout(), n, err)
				}
				c.Close()
				synctest.Wait()
				w.server.mu.Lock()
				if len(w.server.lobby.peers) != 0 || len(w.server.lobby.pending[overStreams].peers) != 0 {
					t.Error("the client is still there")
				}
				w.server.mu.Unlock()
				w.close()
			})
		}
	}
}

// TestStreamPieces: datagrams arrive in pieces of any size.
func TestStreamPieces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := newCounter()
		w := newStreamWorld(t, &Server{Unhandled: func(_ *Peer, m *Message) error { return up.add(m) }})
		var all bytes.Buffer
		c := &Client{}
		near, far := net.Pipe()
		go c.ConnectOn(t.Context(), near)
		server := w.conn()
		go io.Copy(far, server)
		go func() { // what the client writes goes on byte by byte, or in heaps
			buf := make([]byte, 4096)
			for {
				n, err := far.Read(buf)
				if err != nil {
					server.Close()
					return
				}
				all.Write(buf[:n])
				for all.Len() > 0 {
					server.Write(all.Next(1 + all.Len()%3))
				}
			}
		}()
		time.Sleep(time.Second)
		for i := range 500 {
			c.Send(numbered(nil, Reliable, i))
		}
		time.Sleep(time.Second)
		if got, most := up.most(Reliable); got != 500 || most != 1 {
			t.Errorf("%d messages, one %d times", got, most)
		}
		c.Close()
		w.close()
	})
}

// TestSlowStream: a client that does not read is given up, and nobody else is
// kept waiting.
func TestSlowStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var j journal
		var got atomic.Int64
		s := j.server(&Server{Config: &Config{SendBuffer: 20_000}, NoAnnouncements: true})
		w := newStreamWorld(t, s)
		slow := w.conn()
		go slow.Write([]byte{1, 0, 0, 0, 2}) // connect
		buf := make([]byte, 9)
		io.ReadFull(slow, buf) // welcome
		go slow.Write([]byte{7, 0, 0, 0, 0x11, 0, 0x10, 0, 0x20, 0, 0, 5, 0, 0, 0, 0x18, 0, 0x10, 0, 0})
		time.Sleep(100 * ms)
		quick := &Client{Unhandled: func(*Client, *Message) error { got.Add(1); return nil }}
		w.mustDial(quick)
		time.Sleep(100 * ms)
		j.want(t, "server: 1 connected", "server: 2 connected")
		for i := range 3000 {
			s.SendAll(numbered(nil, Unreliable, i))
			time.Sleep(ms)
		}
		j.want(t, "server: 1 poor connection")
		if got.Load() != 3000 {
			t.Errorf("the other client got %d messages, want 3000", got.Load())
		}
		slow.Close()
		quick.Close()
		w.close()
	})
}

// TestIdleStreams: connections on which nothing comes are limited, and closed in
// time.
func TestIdleStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &Server{MaxPending: 3}
		w := newStreamWorld(t, s)
		var conns []net.Conn
		for range 5 {
			conns = append(conns, w.conn())
			synctest.Wait()
		}
		open := func() (n int) {
			for _, c := range conns {
				c.SetReadDeadline(time.Now().Add(time.Nanosecond))
				if _, err := io.Copy(io.Discard, c); !errors.Is(err, io.EOF) && err != nil {
					n++
				}
			}
			return n
		}
		if n := open(); n != 3 {
			t.Errorf("%d connections open, want 3", n)
		}
		time.Sleep(11 * time.Second)
		if n := open(); n != 0 {
			t.Errorf("%d connections open after 11 s", n)
		}
		w.mustDial(&Client{})
		for _, c := range conns {
			c.Close()
		}
		w.close()
	})
}
