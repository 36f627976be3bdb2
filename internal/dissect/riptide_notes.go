package dissect

// riptideNotesMinimum are the sizes of the shortest datagrams in bytes.
var riptideNotesMinimum = []int{3, 5, 1, 2, 2, 2, 3, 5, 5, 5, 5}

// riptideNotes is the layout of whole bytes.
func (d *decoder) riptideNotes() {
	if !d.riptideLength(2) {
		return
	}
	typ := uint64(d.b[0])
	d.add("type", 0, 1, typ).Text = name(riptideTypes, typ)
	if typ >= uint64(len(riptideTypes)) {
		d.problem("%d is no type of datagram", typ)
		return
	}
	d.say("%s", riptideTypes[typ])
	if need := riptideNotesMinimum[typ]; len(d.b) < need {
		d.problem("%s are less than the %d of its type", size(len(d.b)), need)
		return
	}
	off := 1
	if typ >= riptideReliable {
		d.add("sequence", 1, 2, d.le16(1))
		d.also(" %d", d.le16(1))
		off = 3
	}
	switch typ {
	case riptideUnreliable, riptideNotify, riptideReliable:
		d.add("message", off, 2, d.le16(off))
		d.also(", message %d", d.le16(off))
		d.notesRest("payload", off+2)
	case riptideAck:
		d.add("newest", 1, 2, d.le16(1))
		d.also(" %d", d.le16(1))
		d.add("ack_bits", 3, 2, d.le16(3)).Hex = true
	case riptideConnect:
		d.notesRest("data", 1)
	case riptideReject:
		d.notesReason("reject", riptideNotesRejects)
	case riptideDisconnect:
		d.notesReason("disconnect", riptideDisconnects)
	case riptideHeartbeat:
		d.add("ping", 1, 1, uint64(d.b[1]))
		d.also(" %d", d.b[1])
		if len(d.b) >= 4 {
			d.add("rtt", 2, 2, int64(int16(d.le16(2))))
		}
	default:
		d.add("client", 3, 2, d.le16(3))
		d.also(", client %d", d.le16(3))
	}
}

func (d *decoder) notesReason(field string, names []string) {
	reason := d.add(field, 1, 1, uint64(d.b[1]))
	reason.Text = name(names, uint64(d.b[1]))
	d.also(": %s", reason.words())
	d.notesRest("data", 2)
}

// notesRest adds everything from off on.
func (d *decoder) notesRest(name string, off int) {
	d.bytes(name, off, len(d.b)-off)
	if off < len(d.b) {
		d.also(", %s", size(len(d.b)-off))
	}
}
