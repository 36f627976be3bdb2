package riptide

import (
	"bytes"
	"encoding/json"
	"path"
	"testing"
	"time"

	"volley/internal/vectors"
	"volley/internal/wire"
)

// addDatagrams gives the datagrams of all vectors to add.
func addDatagrams(f *testing.F, add func([]byte)) {
	for name, data := range vectors.Files(f, "riptide") {
		var file struct {
			Cases []struct{ Hex hexBytes }
		}
		switch path.Base(name) {
		case "values.json", "decode.json", "datagrams.json":
			if err := json.Unmarshal(data, &file); err != nil {
				f.Fatal(err)
			}
		}
		for i, c := range file.Cases {
			if len(c.Hex) < 64 || i%16 == 0 {
				add(c.Hex)
			}
		}
	}
}

// FuzzPacket parses, appends and parses again.
func FuzzPacket(f *testing.F) {
	addDatagrams(f, func(b []byte) { f.Add(b, false, false) })
	f.Add([]byte{3, 5, 2, 0x6e, 0x6f}, true, true)
	f.Fuzz(func(t *testing.T, b []byte, inNotes, fromServer bool) {
		cd, from := codec{}, clientSide
		if inNotes {
			cd.layout = notes
		}
		if fromServer {
			from = serverSide
		}
		p, ok := cd.parse(from, b)
		if !ok {
			return
		}
		if inNotes && p.typ == typeReject && p.reason == rejectPending {
			return // which we never send
		}
		var out wire.Batch
		c := datagramCase{}
		if inNotes && (p.typ == typeWelcome || p.typ == typeClientConnected || p.typ == typeClientDisconnected) {
			appendID(&out, p.typ, p.seq, p.client)
		} else {
			c.append(cd, from, p, &out)
		}
		q, ok := cd.parse(from, out.At(0))
		if p.typ == typeDisconnect && from == clientSide { // the reason is fixed
			q.reason, q.body = p.reason, p.body
		}
		if len(p.body) > 0 && cd.layout == packed {
			p.body = bytes.Clone(p.body)
			q.body[0] &= 0xf0
			p.body[0] &= 0xf0
		}
		if !ok || !equalPackets(p, q) {
			t.Fatalf("%x is %+v; appended again %x, %v, %+v", b, p, out.At(0), ok, q)
		}
	})
}

// FuzzMessage reads from any message what a script says. It must not panic, and
// not hold more than the message can.
func FuzzMessage(f *testing.F) {
	script := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
	addDatagrams(f, func(b []byte) { f.Add(b, script, false) })
	f.Fuzz(func(t *testing.T, b, script []byte, inNotes bool) {
		layout := packed
		if inNotes {
			layout = notes
		}
		m := new(Message)
		m.loadUser(layout, Reliable, b)
		for i, op := range script {
			before := m.Unread()
			if n := readAny(m, op, i); n > 8*len(b)+64 {
				t.Fatalf("op %d returned %d elements of a message of %d bytes", op, n, len(b))
			}
			if m.Unread() > before || m.Unread() < 0 {
				t.Fatalf("op %d: %d bits unread of %d", op, m.Unread(), before)
			}
		}
	})
}

// readAny reads something and returns how many elements it had.
func readAny(m *Message, op byte, n int) int {
	switch op % 18 {
	case 0:
		Read[uint8](m)
	case 1:
		Read[uint64](m)
	case 2:
		m.ReadBool()
	case 3:
		m.ReadUvarint()
	case 4:
		m.ReadVarint()
	case 5:
		return len(m.ReadString()) / 3 // bytes may become U+FFFD
	case 6:
		return len(ReadSlice[byte](m))
	case 7:
		return len(ReadSlice[bool](m))
	case 8:
		return len(ReadSlice[uint16](m))
	case 9:
		return len(ReadSlice[string](m))
	case 10:
		return len(ReadValues[Vector2](m))
	case 11:
		m.ReadBits(n)
	case 12:
		m.SkipBits(n)
	case 13:
		m.PeekBits(n, 1+n%64)
	case 14:
		m.SetBits(n, 1, 1+n%64)
	case 15:
		return len(m.ReadAppend(nil))
	case 16:
		ReadArray(m, make([]uint8, n))
	case 17:
		readValue[Vector3](m)
	}
	return 0
}

// FuzzConnection gives any datagrams to either end of a connection at any
// stage, with sends and time between them. It must not panic, answer more than
// it is asked, or hold more than a connection may.
func FuzzConnection(f *testing.F) {
	addDatagrams(f, func(b []byte) { f.Add(append([]byte{byte(len(b))}, b...), uint8(0)) })
	f.Add([]byte{255, 2, 10, 255, 4, 5, 0x17, 0, 0x10, 0, 0, 255, 0}, uint8(3))
	f.Fuzz(func(t *testing.T, script []byte, mode uint8) {
		cfg := &Config{SendBuffer: 4096}
		if mode&1 != 0 {
			cfg.NotesLayout = true
		}
		if mode&8 != 0 {
			cfg.Version21 = true
		}
		if mode&4 != 0 {
			cfg.DuplicateWindow = 300 * ms
		}
		s := clientSide
		if mode&2 != 0 {
			s = serverSide
		}
		c, r := newConnected(t, cfg, s)
		c.state = connState(mode >> 4 & 3)
		now, ends := start, 0
		for len(script) > 1 {
			var out wire.Batch
			n := int(script[0])
			script = script[1:]
			if n == 255 { // not a datagram
				op := script[0]
				script = script[1:]
				if op%8 < 4 {
					c.send(now, recordedMode(int(op%3)), bytes.Repeat([]byte{0x10}, 1+int(op)), &out)
				} else {
					now = now.Add(time.Duration(op) * time.Millisecond)
					c.tick(now, false, &out)
				}
				if out.Len() > 33 {
					t.Fatalf("op %d sent %d datagrams", op, out.Len())
				}
				continue
			}
			d := bytes.Clone(script[:min(n, len(script))])
			script = script[len(d):]
			c.receive(now, d, &out)
			if out.Len() > 31 {
				t.Fatalf("%x has %d answers", d, out.Len())
			}
			if next := c.next(); c.state != stateClosed && next.IsZero() && s == clientSide {
				t.Fatal("a client that wants no time")
			}
			if c.sender.bytes > cfg.SendBuffer+messageCost+3 || c.history.bits.Bytes() > 8<<10 {
				t.Fatalf("%d bytes wait, history of %d", c.sender.bytes, c.history.bits.Bytes())
			}
			ends = max(ends, r.ends)
		}
		if ends > 1 {
			t.Fatalf("ended %d times: %v", ends, r.log)
		}
	})
}
