package reliable

// halfSums are sums over the older half of an outbound.
type halfSums struct {
	present, acked int32
	bytes          int64
	ackedBytes     int64
}

func (h *halfSums) add(r *sentRecord, sign int32) {
	h.present += sign
	h.bytes += int64(sign) * int64(r.bytes)
	if r.mark&markAcked != 0 {
		h.addAcked(r, sign)
	}
}

func (h *halfSums) addAcked(r *sentRecord, sign int32) {
	h.acked += sign
	h.ackedBytes += int64(sign) * int64(r.bytes)
}

// lost returns the percentage that was not acknowledged; there is a packet.
func (h *halfSums) lost() float32 { return float32(h.present-h.acked) / float32(h.present) * 100 }

// olderHalf returns the lost percentage and the spans of a fixed window's older half.
func (o *outbound) olderHalf() (lost float32, sent, acked span) {
	if o.odd != nil {
		return o.scan()
	}
	h := &o.half
	if h.present == 0 {
		return 0, span{}, span{}
	}
	lost = h.lost()
	n := len(o.ring)
	first, last := o.nextID-uint64(min(n, int(o.count))), o.nextID-uint64(n/2)-1
	at := func(id uint64) int64 { return o.record(uint16(id)).at }
	sent = span{h.bytes, at(first), at(last), true}
	if h.acked == 0 {
		return lost, sent, span{}
	}
	for o.record(uint16(first)).mark&markAcked == 0 {
		first++
	}
	for o.record(uint16(last)).mark&markAcked == 0 {
		last--
	}
	return lost, sent, span{h.ackedBytes, at(first), at(last), true}
}

// scan is olderHalf for a window whose size is not a power of two.
func (o *outbound) scan() (lost float32, sent, acked span) {
	var h halfSums
	first := uint16(o.nextID) - uint16(len(o.ring))
	for i := range uint16(len(o.ring) / 2) {
		s := first + i
		if !o.odd.Exists(s) {
			continue
		}
		r := o.record(s)
		h.add(r, 1)
		sent.add(r.at, r.bytes)
		if r.mark&markAcked != 0 {
			acked.add(r.at, r.bytes)
		}
	}
	if h.present > 0 {
		lost = h.lost()
	}
	return lost, sent, acked
}

// lostShare returns the lost percentage of the latest fates, overdue ones among them.
func (o *outbound) lostShare() float32 { return 100 * o.recent.share(int(o.overdue.count)) }
