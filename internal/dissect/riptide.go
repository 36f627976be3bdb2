package dissect

import "encoding/binary"

// Types of datagrams in both layouts, as docs/riptide.md has them.
const (
	riptideUnreliable = iota
	riptideAck
	riptideConnect
	riptideReject
	riptideHeartbeat
	riptideDisconnect
	riptideNotify
	riptideReliable
	riptideWelcome
	riptideClientConnected
	riptideClientDisconnected
)

var (
	riptideTypes = []string{"unreliable", "ack", "connect", "reject", "heartbeat", "disconnect", "notify", "reliable",
		"welcome", "client_connected", "client_disconnected"}
	riptideRejects      = []string{"no connection", "already connected", "server full", "rejected", "custom"}
	riptideNotesRejects = []string{"no connection", "already connected", "pending", "server full", "rejected", "custom"}
	riptideDisconnects  = []string{"never connected", "connection rejected", "transport error", "timed out", "kicked",
		"server stopped", "disconnected", "poor connection"}
	// riptideMinimum are the sizes of the shortest datagrams of the packed
	// layout in bytes.
	riptideMinimum = []int{2, 5, 1, 2, 2, 1, 6, 4, 5, 5, 5}
)

// riptideLength adds the length that a stream has in front of a datagram, and
// leaves the datagram. It reports false for a wrong one.
func (d *decoder) riptideLength(n int) bool {
	if !d.o.Stream {
		return true
	}
	if len(d.b) < n {
		d.problem("ends within the length")
		return false
	}
	length := int64(0)
	if n == 2 {
		length = int64(d.le16(0))
	} else {
		length = int64(int32(binary.LittleEndian.Uint32(d.b)))
	}
	d.add("length", 0, n, length)
	if length <= 0 || length != int64(len(d.b)-n) {
		d.problem("a length of %d in front of %s", length, size(len(d.b)-n))
		return false
	}
	d.b, d.base = d.b[n:], n
	return true
}

// riptide is the packed layout: bits, from the lowest of each byte on.
func (d *decoder) riptide() {
	if !d.riptideLength(4) {
		return
	}
	typ := uint64(d.b[0] & 0xf)
	d.add("type", 0, 1, typ).Text = name(riptideTypes, typ)
	if typ >= uint64(len(riptideTypes)) {
		d.problem("%d is no type of datagram", typ)
		return
	}
	d.say("%s", riptideTypes[typ])
	if need := riptideMinimum[typ]; len(d.b) < need {
		d.problem("%s are less than the %d of its type", size(len(d.b)), need)
		return
	}
	switch typ {
	case riptideUnreliable:
		d.packedMessage(4)
	case riptideAck:
		d.packedAck()
	case riptideConnect:
		d.packedData(4)
	case riptideReject:
		reason := d.packed("reject", 4, 8)
		reason.Text = name(riptideRejects, reason.Value.(uint64))
		d.also(": %s", reason.words())
		d.packedData(12)
	case riptideHeartbeat:
		d.packedHeartbeat()
	case riptideDisconnect:
		d.packedDisconnect()
	case riptideNotify:
		d.packed("newest", 4, 16)
		d.packed("ack_bits", 20, 8).Hex = true
		d.also(" %d", d.packed("sequence", 28, 16).Value)
		d.packedPayload("payload", 44)
	case riptideReliable:
		d.also(" %d", d.packed("sequence", 4, 16).Value)
		d.packedMessage(20)
	default:
		d.also(" %d", d.packed("sequence", 4, 16).Value)
		d.also(", client %d", d.packed("client", 20, 16).Value)
	}
}

// words returns what a field says.
func (f *Field) words() string {
	if f.Text != "" {
		return f.Text
	}
	return text(f.Value, f.Hex)
}

// bitsAt returns n bits from bit at on, at most 64. What lies behind the end is 0.
func bitsAt(b []byte, at, n int) (v uint64) {
	for i := range n {
		if p := at + i; p/8 < len(b) {
			v |= uint64(b[p/8]>>(p%8)&1) << i
		}
	}
	return v
}

// packed adds a number of n bits from bit at on. Its bytes are all that hold any
// of the bits.
func (d *decoder) packed(name string, at, n int) *Field {
	return d.add(name, at/8, (at+n-1)/8-at/8+1, bitsAt(d.b, at, n))
}

func (d *decoder) packedAck() {
	d.also(" %d", d.packed("newest", 4, 16).Value)
	d.packed("ack_bits", 20, 16).Hex = true
	explicit := bitsAt(d.b, 36, 1) == 1
	d.add("explicit", 4, 1, explicit)
	if !explicit {
		return
	}
	if len(d.b) < 7 {
		d.problem("%s are less than the 7 of an ack with an explicit id", size(len(d.b)))
		return
	}
	d.also(", and of %d", d.packed("acked", 37, 16).Value)
}

// packedHeartbeat tells who sent it by its size.
func (d *decoder) packedHeartbeat() {
	from := "server"
	if len(d.b) >= 4 {
		from = "client"
	}
	d.add("from", 0, 1, from)
	d.also(" %d of the %s", d.packed("ping", 4, 8).Value, from)
	if from == "client" {
		rtt := int64(int16(bitsAt(d.b, 12, 16)))
		d.add("rtt", 1, 3, rtt)
		if rtt != -1 {
			d.also(", round trip %d ms", rtt)
		}
	}
}

func (d *decoder) packedDisconnect() {
	if len(d.b) == 1 {
		d.add("from", 0, 1, "client")
		d.also(" by the client")
		return
	}
	d.add("from", 0, 1, "server")
	reason := d.packed("disconnect", 4, 8)
	if len(d.b) == 2 && reason.Value == uint64(0x50) {
		reason.Value = uint64(5) // written past the packer of bits by 2.1.0 to 2.2.0
	}
	reason.Text = name(riptideDisconnects, reason.Value.(uint64))
	d.also(": %s", reason.words())
	d.packedData(12)
}

// packedMessage adds a message id, a varint, and the payload behind it.
func (d *decoder) packedMessage(at int) {
	var id uint64
	start, shift := at, 0
	for {
		if at+8 > 8*len(d.b) {
			d.problem("ends within the message id")
			return
		}
		group := bitsAt(d.b, at, 8)
		at += 8
		id |= group & 0x7f << (shift & 63)
		shift += 7
		if group < 0x80 {
			break
		}
	}
	id &= 0xffff
	d.add("message", start/8, (at-1)/8-start/8+1, id)
	d.also(", message %d", id)
	d.packedPayload("payload", at)
}

// packedPayload adds what begins at bit at, which is 4 bits into a byte, as
// bytes of its own. The last half of a byte is among them if it holds anything.
func (d *decoder) packedPayload(name string, at int) {
	n := (8*len(d.b) - at) / 8 // whole bytes
	if bitsAt(d.b, at+8*n, 4) != 0 {
		n++
	}
	if n <= 0 {
		return
	}
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(bitsAt(d.b, at+8*i, 8))
	}
	d.addIn(name, payload)
	d.also(", %s", size(n))
}

// addIn adds bytes that are in no place of the datagram.
func (d *decoder) addIn(name string, b []byte) {
	f := d.add(name, 0, len(b), b)
	f.Offset, f.In = 0, name
}

// packedData adds what an application has added to a connect or its answers.
func (d *decoder) packedData(at int) { d.packedPayload("data", at) }
