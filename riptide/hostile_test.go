package riptide

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"volley/internal/wire"
	"volley/simnet"
)

// TestHostileClient: a client that is connected and sends whatever it can think
// of costs bounded memory, and a hundred honest clients nothing.
func TestHostileClient(t *testing.T) {
	for _, layout := range []layout{packed, notes} {
		bubble(t, func(t *testing.T) {
			cfg := &Config{NotesLayout: layout == notes}
			var ended, handled atomic.Int64
			s := &Server{
				Config:     cfg,
				MaxClients: 102,
				Unhandled: func(p *Peer, m *Message) error {
					handled.Add(1)
					ReadSlice[string](m)
					ReadSlice[uint64](m)
					_ = m.ReadString()
					ReadSlice[byte](m)
					if m.Err() == nil {
						return p.Send(m)
					}
					return m.Err()
				},
				Disconnected: func(p *Peer, _ Reason) {
					if p.ID() <= 100 {
						ended.Add(1)
					}
				},
			}
			w := newWorld(t, s, simnet.Link{Latency: ms})
			var clients []*Client
			for i := range 100 {
				c := &Client{Config: cfg}
				clients = append(clients, c)
				w.mustDial(c, fmt.Sprintf("10.0.9.%d:1", i))
			}
			for i, c := range clients { // for the memory of honest work
				c.Send(numbered(cfg, Reliable, i))
			}
			time.Sleep(200 * ms)
			before := heapSize()
			rng := rand.New(rand.NewPCG(1, 1))
			var evil net.Conn
			for round := range 40 {
				if round%10 == 0 { // it is thrown out, and comes back
					if evil != nil {
						evil.Close() // with what its socket holds
					}
					evil = evilClient(t, w, cfg, fmt.Sprint("10.0.8.1:", round+1))
				}
				for range 1000 {
					evil.Write(evilDatagram(rng, codec{layout: layout}))
				}
				for i, c := range clients {
					c.Send(numbered(cfg, Reliable, i))
				}
				time.Sleep(200 * ms)
			}
			evil.Close()
			time.Sleep(time.Second) // what is on the way is the network's
			if grown := int64(heapSize()) - int64(before); grown > 4<<20 {
				t.Errorf("memory grew by %d bytes", grown)
			}
			if ended.Load() > 0 {
				t.Errorf("%d sessions of others ended", ended.Load())
			}
			if handled.Load() < 4000 {
				t.Errorf("%d messages handled", handled.Load())
			}
			for _, c := range clients {
				if st := c.Stats(); st.Unacknowledged > 0 || st.MessagesResent > 0 {
					t.Errorf("%d messages of an honest client wait, %d resends", st.Unacknowledged, st.MessagesResent)
				}
				c.Close()
			}
			w.close()
		})
	}
}

// TestHostileStreams: connections of a stream that lie about lengths, stop in the
// middle, or send what they can think of, cost bounded memory, and a hundred honest
// clients nothing.
func TestHostileStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended, handled atomic.Int64
		s := &Server{
			MaxClients:      150,
			NoAnnouncements: true,
			Unhandled: func(p *Peer, m *Message) error {
				if p.ID() <= 100 {
					handled.Add(1)
				}
				ReadSlice[string](m)
				return p.Send(m)
			},
			Disconnected: func(p *Peer, _ Reason) {
				if p.ID() <= 100 {
					ended.Add(1)
				}
			},
		}
		w := newStreamWorld(t, s)
		var clients []*Client
		for range 100 {
			c := &Client{}
			clients = append(clients, c)
			w.mustDial(c)
		}
		time.Sleep(200 * ms)
		before := heapSize()
		rng := rand.New(rand.NewPCG(2, 2))
		var evil []net.Conn
		for round := range 30 {
			for range 10 {
				evil = append(evil, evilStream(rng, w.conn()))
			}
			for i, c := range clients {
				c.Send(numbered(nil, Reliable, i))
			}
			time.Sleep(200 * ms)
			if round%10 == 9 {
				if grown := int64(heapSize()) - int64(before); grown > 8<<20 {
					t.Errorf("memory grew by %d bytes", grown)
				}
				for _, c := range evil {
					c.Close()
				}
				evil = nil
			}
		}
		if handled.Load() != 3000 || ended.Load() > 0 {
			t.Errorf("%d messages of honest clients handled, %d of them ended", handled.Load(), ended.Load())
		}
		for _, c := range clients {
			if st := c.Stats(); st.Unacknowledged > 0 || st.MessagesResent > 0 {
				t.Errorf("%d messages of an honest client wait, %d resends", st.Unacknowledged, st.MessagesResent)
			}
			c.Close()
		}
		w.close()
	})
}

// evilStream has a connection send what a program would not, until it ends.
func evilStream(rng *rand.Rand, c net.Conn) net.Conn {
	frame := func(claimed int, b []byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(claimed)), b...)
	}
	var all []byte
	if rng.IntN(2) == 0 { // as a client that is connected
		var out wire.Batch
		body := codec{}.idBody(1)
		codec{}.appendConnect(&out, nil)
		codec{}.appendReliable(&out, typeWelcome, 1, body[:])
		for i := range out.Len() {
			all = append(all, frame(len(out.At(i)), out.At(i))...)
		}
		for range rng.IntN(100) {
			if d := evilDatagram(rng, codec{}); len(d) <= defaultMaxPayload+maxHeaderSize {
				all = append(all, frame(len(d), d)...)
			}
		}
	}
	switch rng.IntN(4) {
	case 0: // half a message
		all = append(all, frame(defaultMaxPayload+maxHeaderSize, make([]byte, 600))...)
	case 1: // half a length
		all = append(all, 7, 0)
	case 2:
		all = append(all, frame(-1-rng.IntN(1<<30), make([]byte, 100))...)
	default:
		all = append(all, frame(1<<31-1-rng.IntN(1<<30), make([]byte, 100))...)
	}
	go c.Write(all)
	go io.Copy(io.Discard, c)
	return c
}

// evilClient returns the socket of a client that is connected.
func evilClient(t *testing.T, w *world, cfg *Config, from string) net.Conn {
	t.Helper()
	conn, err := w.net.Dial(from, serverAddr)
	if err != nil {
		t.Fatal(err)
	}
	cd := codec{layout: cfg.layout()}
	var out wire.Batch
	cd.appendConnect(&out, nil)
	body := cd.idBody(1)
	cd.appendReliable(&out, typeWelcome, 1, body[:cd.idBodySize()])
	for i := range out.Len() {
		conn.Write(out.At(i))
		time.Sleep(10 * ms)
	}
	return conn
}

// evilDatagram returns something that a program would not send.
func evilDatagram(rng *rand.Rand, cd codec) []byte {
	var out wire.Batch
	random := make([]byte, 1+rng.IntN(40))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	long := []byte{0x10, 0xf0, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0} // lengths of 2 GB and more
	switch rng.IntN(8) {
	case 0:
		return random
	case 1:
		return make([]byte, 1+rng.IntN(3000))
	case 2:
		cd.appendReliable(&out, typeReliable, uint16(rng.Uint32()), random)
	case 3:
		cd.appendReliable(&out, typeReliable, uint16(rng.Uint32()), long)
	case 4:
		cd.appendAck(&out, ack{newest: uint16(rng.Uint32()), bits: uint16(rng.Uint32()), id: uint16(rng.Uint32()), has: rng.IntN(2) == 0})
	case 5:
		cd.appendNotify(&out, uint16(rng.Uint32()), ack{newest: uint16(rng.Uint32()), bits: uint16(rng.Uint32())}, random)
	case 6:
		cd.appendHeartbeat(&out, clientSide, uint8(rng.Uint32()), int16(rng.Uint32()))
	default:
		cd.appendUnreliable(&out, long)
	}
	if d := out.At(0); len(d) > 0 && packetType(d[0]&0xf) != typeDisconnect {
		return d
	}
	return random
}
