package riptide

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A message with a mode that there is not has an error, also after Rewind has
// forgotten it, and none of the ways to send one harms the connection.
func TestUnknownMode(t *testing.T) {
	for _, layout := range []layout{packed, notes} {
		bubble(t, func(t *testing.T) {
			cfg := &Config{NotesLayout: layout == notes}
			got := make(chan uint16, 10)
			joined := make(chan *Peer, 1)
			s := &Server{Config: cfg, Connected: func(p *Peer) { joined <- p }}
			s.Unhandled = func(_ *Peer, m *Message) error { got <- m.ID(); return nil }
			w := newWorld(t, s, simnet.Link{})
			defer w.close()
			c := &Client{Config: cfg, Unhandled: func(_ *Client, m *Message) error { got <- m.ID(); return nil }}
			w.mustDial(c, "10.0.0.2:1")
			p := <-joined

			bad := cfg.NewMessage(numModes, 7)
			reset := cfg.NewMessage(Reliable, 7)
			reset.Reset(255, 7)
			rewound := cfg.NewMessage(200, 7)
			rewound.Rewind()
			for _, m := range []*Message{bad, reset, bad.Clone(), rewound} {
				if m != rewound {
					require.ErrorIs(t, m.Err(), ErrRange)
					require.Contains(t, m.Err().Error(), "of mode "+m.Mode().String())
				}
				require.ErrorIs(t, c.Send(m), ErrRange)
				require.ErrorIs(t, p.Send(m), ErrRange)
				require.ErrorIs(t, s.SendAll(m), ErrRange)
			}
			if layout == packed {
				require.ErrorIs(t, NewMessage(0, 7).Err(), ErrRange)
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

// A zero Message says what to use.
func TestMessageThatWasNotMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, new(Server), simnet.Link{})
		defer w.close()
		var c Client
		w.mustDial(&c, "10.0.0.2:1")
		require.ErrorIs(t, c.Send(new(Message)), errUnmade)
		require.NoError(t, c.Close())
	})
	for _, add := range []func(*Message){
		func(m *Message) { Add[uint64](m, 1) },
		func(m *Message) { AddSlice(m, make([]byte, 9)) },
		func(m *Message) { AddArray(m, make([]uint8, 9)) },
		func(m *Message) { reserveBits(m, 9) },
		func(m *Message) { m.AddRest(NewMessage(Reliable, 1)); m.AddBool(true) },
	} {
		m := new(Message)
		add(m)
		require.ErrorIs(t, m.Err(), errUnmade)
		require.Contains(t, m.Err().Error(), "NewMessage")
	}
	m := NewMessage(Reliable, 1)
	m.AddRest(nil)
	require.ErrorIs(t, m.Err(), errNilMessage)
}
