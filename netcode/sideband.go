package netcode

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"volley/internal/sideband"
)

// Bands are the first bytes of payloads in a session that has an owner.
const (
	applicationBand = 0
	controlBand     = 1
)

func init() {
	sideband.Own = func(cfg any, o sideband.Owner) { cfg.(*Config).owner = o }
	sideband.OwnMove = func(cfg any, o sideband.Owner) { cfg.(*Config).owner, cfg.(*Config).move = o, true }
	sideband.AppendSpare = func(b []byte, token any) []byte { return token.(*Token).appendSpare(b) }
	sideband.ParseSpare = func(b []byte, protocolID uint64, server netip.AddrPort) (any, bool) {
		return parseSpare(b, protocolID, server)
	}
	sideband.Zone = func(token any, zone string) { token.(*Token).setZone(zone) }
	sideband.Of = func(c net.Conn) sideband.Session { return (*owned)(c.(*Conn)) }
}

func (t *Token) setZone(zone string) {
	for i, ap := range t.servers {
		if ap.Addr().IsLinkLocalUnicast() && ap.Addr().Is6() {
			t.servers[i] = netip.AddrPortFrom(ap.Addr().WithZone(zone), ap.Port())
		}
	}
}

// owned is a Conn as its owner sees it.
type owned Conn

// Keep implements sideband.Session.
func (o *owned) Keep(v any) {
	o.sendMu.Lock()
	o.kept = v
	o.sendMu.Unlock()
}

// Kept implements sideband.Session.
func (o *owned) Kept() any {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	return o.kept
}

// Send implements sideband.Session.
func (o *owned) Send(msg []byte) error { return (*Conn)(o).sendControl(msg) }

// Move implements sideband.Session.
func (o *owned) Move(newer net.Conn) error {
	return (*Conn)(o).takeOver(time.Now(), newer.(*Conn))
}

// Heard implements sideband.Session.
func (o *owned) Heard() time.Time { return o.born.Add(time.Duration(o.on.heard.Load())) }

// Asked implements sideband.Session.
func (o *owned) Asked() time.Time {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	if o.on.asked <= o.on.heard.Load() {
		return time.Time{}
	}
	return o.born.Add(time.Duration(o.on.asked))
}

// CloseWith implements sideband.Session.
func (o *owned) CloseWith(msg []byte) error { return (*Conn)(o).close(msg) }

// Failure implements sideband.Session.
func (o *owned) Failure() error { return (*Conn)(o).failure() }

// Left implements sideband.Session.
func (o *owned) Left() bool {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	return o.left
}

// End implements sideband.Session.
func (o *owned) End(err error, bye []byte) {
	c := (*Conn)(o)
	c.recvMu.Lock()
	c.ended = true
	upper := c.upper
	c.recvMu.Unlock()
	c.endTelling(upper, err, bye)
}

// splitLocked takes the byte off the payloads, in place, and returns those of the owner apart.
// Others are dropped.
func (c *Conn) splitLocked(payloads [][]byte) (application, control [][]byte) {
	application = payloads[:0]
	for _, p := range payloads {
		switch {
		case len(p) > 1 && p[0] == applicationBand:
			application = append(application, p[1:])
		case len(p) > 1 && p[0] == controlBand:
			control = append(control, p[1:])
		default:
			c.sess.recv.drop(dropPayloadSize)
			c.shared.drop(dropPayloadSize, c.sess.addr)
		}
	}
	return application, control
}

func (c *Conn) protocol() string { return protocolOf(c.owner) }

func protocolOf(o sideband.Owner) string {
	if o == nil {
		return "netcode"
	}
	return o.Protocol()
}

func askOf(o sideband.Owner) func(time.Time, []byte) (moves, refused, early bool) {
	if o == nil {
		return nil
	}
	return o.Ask
}

// sendControl sends a control message. It does not wait for room.
func (c *Conn) sendControl(msg []byte) error {
	now := time.Now()
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if err := c.out.Err(); err != nil {
		return err
	}
	if c.out.Crowded() {
		return nil // as if it were lost
	}
	before := c.out.Pending()
	c.sess.sendBanded(now, controlBand, msg, c.out.Batch(now.Sub(c.born)))
	c.out.SendFreshUnlocking(before)
	return nil
}

// appendSpare appends what a client needs beside the servers and the protocol.
func (t *Token) appendSpare(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, t.created)
	b = binary.LittleEndian.AppendUint64(b, t.expires)
	b = binary.LittleEndian.AppendUint32(b, uint32(t.timeout))
	b = append(b, t.nonce[:]...)
	b = append(b, t.private[:]...)
	b = append(b, t.clientKey[:]...)
	return append(b, t.serverKey[:]...)
}

// parseSpare reads what appendSpare has written.
func parseSpare(b []byte, protocolID uint64, server netip.AddrPort) (*Token, bool) {
	if len(b) != sideband.SpareSize {
		return nil, false
	}
	t := &Token{protocolID: protocolID, servers: []netip.AddrPort{server}}
	t.created = binary.LittleEndian.Uint64(b)
	t.expires = binary.LittleEndian.Uint64(b[8:])
	t.timeout = int32(binary.LittleEndian.Uint32(b[16:]))
	b = b[20:]
	b = b[copy(t.nonce[:], b):]
	b = b[copy(t.private[:], b):]
	b = b[copy(t.clientKey[:], b):]
	copy(t.serverKey[:], b)
	return t, t.created <= t.expires
}
