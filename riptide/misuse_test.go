package riptide

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A message with a mode that there is not has an error, also after Rewind has
// forgotten it, and none of the ways to send one harms the connection.
func TestUnknownMode(t *testing.T) {
	for _, layout := range []Layout{Packed, Notes} {
		bubble(t, func(t *testing.T) {
			cfg := &Config{Layout: layout}
			got := make(chan uint16, 10)
			joined := make(chan *Peer, 1)
			s := &Server{Config: cfg, Connected: func(p *Peer) { joined <- p }}
			s.Unhandled = func(_ *Peer, m *Message) error { got <- m.ID(); return nil }
			w := newWorld(t, s, simnet.Link{})
			defer w.close()
			c := &Client{Config: cfg, Unhandled: func(_ *Client, m *Message) error { got <- m.ID(); return nil }}
			w.mustDial(c, "10.0.0.2:1")
			p := <-joined

			bad := cfg.NewMessage(3, 7)
			reset := cfg.NewMessage(Reliable, 7)
			reset.Reset(255, 7)
			rewound := cfg.NewMessage(200, 7)
			rewound.Rewind()
			for _, m := range []*Message{bad, reset, bad.Clone(), rewound} {
				if m != rewound {
					require.ErrorIs(t, m.Err(), ErrRange)
					require.Contains(t, m.Err().Error(), "there is no "+m.Mode().String())
				}
				require.ErrorIs(t, c.Send(m), ErrRange)
				require.ErrorIs(t, p.Send(m), ErrRange)
				require.ErrorIs(t, s.Send(p, m), ErrRange)
				require.ErrorIs(t, s.SendAll(m), ErrRange)
			}
			if layout == Packed {
				require.ErrorIs(t, NewMessage(3, 7).Err(), ErrRange)
			}
			good := cfg.NewMessage(Reliable, 8)
			require.NoError(t, c.Send(good))
			require.EqualValues(t, 8, <-got)
			require.NoError(t, p.Send(good))
			require.EqualValues(t, 8, <-got)
			require.NoError(t, c.Close())
		})
	}
}

// What may and may not be done with a message that has been released.
func TestReleaseTwice(t *testing.T) {
	m := NewMessage(Reliable, 1)
	m.Release()
	require.PanicsWithValue(t, "riptide: Message released twice", m.Release)
	large := (&Config{MaxPayload: 60_000}).NewMessage(Reliable, 1)
	large.AddBytes(make([]byte, 50_000))
	large.Release()
	require.PanicsWithValue(t, "riptide: Message released twice", large.Release)
	a, b := NewMessage(Reliable, 1), NewMessage(Reliable, 2)
	require.NotSame(t, a, b)
	for range 3 { // one that comes from the pool can be released
		a.Release()
		a = NewMessage(Reliable, 1)
	}
	new(Message).Release()
}

// Release does nothing to the message of a handler, which is the connection's, and
// its clone is the handler's.
func TestReleaseInHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got []uint32
		s := &Server{Unhandled: func(_ *Peer, m *Message) error {
			c := m.Clone()
			m.Release()
			m.Release()
			other := NewMessage(Reliable, 1)
			require.NotSame(t, m, other)
			other.AddUint32(1000)
			got = append(got, m.Uint32(), c.Uint32())
			c.Release()
			other.Release()
			return nil
		}}
		w := newWorld(t, s, simnet.Link{})
		defer w.close()
		var c Client
		w.mustDial(&c, "10.0.0.2:1")
		for i := range uint32(3) {
			m := NewMessage(Reliable, 5)
			m.AddUint32(i)
			require.NoError(t, c.Send(m))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Equal(t, []uint32{0, 0, 1, 1, 2, 2}, got)
		require.NoError(t, c.Close())
	})
}

// A zero Message, and one that was released, says what to use.
func TestMessageThatWasNotMade(t *testing.T) {
	released := (&Config{MaxPayload: 60_000}).NewMessage(Reliable, 1)
	released.AddBytes(make([]byte, 50_000)) // so much is not kept for another message
	released.Release()
	bubble(t, func(t *testing.T) {
		w := newWorld(t, new(Server), simnet.Link{})
		defer w.close()
		var c Client
		w.mustDial(&c, "10.0.0.2:1")
		require.ErrorIs(t, c.Send(released), errUnmade)
		require.ErrorIs(t, c.Send(new(Message)), errUnmade)
		require.NoError(t, c.Close())
	})
	for _, add := range []func(*Message){
		func(m *Message) { m.AddUint64(1) },
		func(m *Message) { m.AddBytes(make([]byte, 9)) },
		func(m *Message) { AddArray(m, make([]uint8, 9)) },
		func(m *Message) { m.ReserveBits(9) },
		func(m *Message) { m.AddMessage(NewMessage(Reliable, 1)); m.AddBool(true) },
	} {
		m := new(Message)
		add(m)
		require.ErrorIs(t, m.Err(), errUnmade)
		require.Contains(t, m.Err().Error(), "NewMessage")
	}
	m := NewMessage(Reliable, 1)
	m.AddMessage(nil)
	require.ErrorIs(t, m.Err(), errNilMessage)
}
