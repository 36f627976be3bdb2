package dissect

// Types of frames and messages, and sizes in bytes, as docs/porous.md has them.
const (
	porousConnect = iota
	porousConnectAck
	porousDisconnect
	porousDisconnectAck
	porousPing
	porousPingAck
	porousData
	porousDataAck
)

const (
	porousFragment = iota
	porousSentinel
	porousWindowAck
)

const (
	porousMTU        = 1472 // of version 0, the larger one
	porousDataHeader = 7
	porousAckHeader  = 3
	porousFragHeader = 13
	porousSentSize   = 7
	porousWindowSize = 5
)

var (
	porousTypes    = []string{"connect", "connect_ack", "disconnect", "disconnect_ack", "ping", "ping_ack", "data", "data_ack"}
	porousMessages = []string{"fragment", "sentinel", "window_ack"}
	// porousSizes are those of the frames before data.
	porousSizes = []int{11, 5, 1, 1, 3, 3}
)

func (d *decoder) porous() {
	typ := uint64(d.b[0])
	d.add("type", 0, 1, typ).Text = name(porousTypes, typ)
	if typ >= uint64(len(porousTypes)) {
		d.problem("%d is no type of frame", typ)
		return
	}
	d.say("%s", porousTypes[typ])
	switch typ {
	case porousData:
		d.porousData()
	case porousDataAck:
		d.porousDataAck()
	default:
		d.porousControl(typ)
	}
	if len(d.b) > porousMTU {
		d.problem("%d bytes are more than the %d of a frame", len(d.b), porousMTU)
	}
}

// porousControl is about the frames before data.
func (d *decoder) porousControl(typ uint64) {
	if want := porousSizes[typ]; len(d.b) != want {
		d.problem("a %s has %s, not %d", porousTypes[typ], size(want), len(d.b))
		return
	}
	switch typ {
	case porousConnect:
		d.add("version", 1, 1, uint64(d.b[1]))
		d.add("channels", 2, 1, uint64(d.b[2])+1)
		d.add("bandwidth", 3, 4, d.be32(3))
		d.add("id", 7, 4, d.be32(7))
		d.also(" version %d, %s, id %d", d.b[1], count(int(d.b[2])+1, "channel", "channels"), d.be32(7))
	case porousConnectAck:
		d.add("id", 1, 4, d.be32(1))
		d.also(" of id %d", d.be32(1))
	case porousPing, porousPingAck:
		d.add("ping", 1, 2, d.be16(1))
		d.also(" %d", d.be16(1))
	}
}

func (d *decoder) porousDataAck() {
	if len(d.b) < porousAckHeader {
		d.problem("ends within the number of ids")
		return
	}
	n := d.be16(1)
	d.add("acks", 1, 2, n)
	d.also(" of %s", count(n, "frame", "frames"))
	if want := porousAckHeader + 4*int(n); len(d.b) != want {
		d.problem("%s have %s, not %d", count(n, "id", "ids"), size(want), len(d.b))
		return
	}
	for off := porousAckHeader; off < len(d.b); off += 4 {
		d.add("acked", off, 4, d.be32(off))
	}
}

func (d *decoder) porousData() {
	if len(d.b) < porousDataHeader {
		d.problem("ends within the header")
		return
	}
	id, n := d.be32(1), d.be16(5)
	d.add("frame", 1, 4, id)
	d.add("messages", 5, 2, n)
	d.also(" frame %d with %s", id, count(n, "message", "messages"))
	off := porousDataHeader
	for i := range n {
		if off = d.porousMessage(off, i); off < 0 {
			d.problem("message %d of %d is not whole", i+1, n)
			return
		}
	}
	if rest := len(d.b) - off; rest > 0 {
		d.problem("%s left over", size(rest))
	}
}

// inSummary is how many messages of a frame its summary names.
const inSummary = 3

// porousMessage adds message i at off and returns where it ends, or -1 if it is
// none.
func (d *decoder) porousMessage(off int, i uint64) int {
	left := len(d.b) - off
	if left < porousWindowSize {
		return -1
	}
	typ, need := uint64(d.b[off]), porousWindowSize
	switch typ {
	case porousFragment:
		need = porousFragHeader
	case porousSentinel:
		need = porousSentSize
	}
	if typ > porousWindowAck || left < need {
		return -1
	}
	data := 0
	if typ == porousFragment {
		if data = int(d.be16(off + 11)); left < need+data {
			return -1
		}
	}
	packet := uint64(d.b[off+2])<<16 | d.be16(off+3)
	kind := d.field("message.type", off, 1, typ)
	kind.Text = porousMessages[typ]
	fields := []Field{kind, d.field("message.channel", off+1, 1, uint64(d.b[off+1])), d.field("message.packet", off+2, 3, packet)}
	if typ != porousWindowAck {
		fields = append(fields, d.field("message.lead", off+5, 2, d.be16(off+5)))
	}
	if typ == porousFragment {
		fields = append(fields,
			d.field("message.fragment", off+7, 2, d.be16(off+7)),
			d.field("message.last_fragment", off+9, 2, d.be16(off+9)),
			d.field("message.length", off+11, 2, d.be16(off+11)))
		if data > 0 {
			fields = append(fields, d.field("message.data", off+need, data, d.b[off+need:off+need+data]))
		}
	}
	d.add("message", off, need+data, nil).Fields = fields
	switch {
	case i < inSummary:
		d.also("; %s of packet %d on channel %d", porousMessages[typ], packet, d.b[off+1])
	case i == inSummary:
		d.also("; ...")
	}
	return off + need + data
}
