package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A checkResponder answers check on the second port of a server. It keeps
// nothing about those who ask.
type checkResponder struct {
	conn   *net.UDPConn
	secret [32]byte
	whole  bool // the system fragments nothing
	wg     sync.WaitGroup
}

// newCheckResponder starts a responder on a UDP address.
func newCheckResponder(address string) (*checkResponder, error) {
	addr, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		return nil, err
	}
	r := &checkResponder{conn: conn, whole: neverFragment(conn) == nil}
	rand.Read(r.secret[:])
	r.wg.Go(r.serve)
	return r, nil
}

// port returns the port that answers, 0 for a nil responder.
func (r *checkResponder) port() int {
	if r == nil {
		return 0
	}
	return r.conn.LocalAddr().(*net.UDPAddr).Port
}

// about tells people of the port.
func (r *checkResponder) about() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf(", and on port %d for check", r.port())
}

// close stops the responder, which may be nil, and waits for its end.
func (r *checkResponder) close() {
	if r != nil {
		r.conn.Close()
		r.wg.Wait()
	}
}

// pauseAfterError is how long a reader rests after an error of its socket, most
// of which are about a datagram that it has sent before.
const pauseAfterError = time.Millisecond

func (r *checkResponder) serve() {
	buf := make([]byte, 64<<10)
	var out []byte
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(pauseAfterError)
			continue
		}
		if out = r.answer(out[:0], buf[:n], from, time.Now()); len(out) > 0 {
			r.conn.WriteToUDPAddrPort(out, from) // what does not fit the way is what is asked for
		}
	}
}

// cookieTime is half the longest life of a cookie, and its shortest. So the next
// owner of an address is not sent what the last owner has asked for.
const cookieTime = time.Minute

// answer appends the answer to a datagram, or nothing.
func (r *checkResponder) answer(dst, b []byte, from netip.AddrPort, now time.Time) []byte {
	q, ok := parseCheckDatagram(b)
	if !ok || q.answer {
		return dst
	}
	a := checkDatagram{answer: true, whole: r.whole, size: len(b), number: q.number, cookie: r.cookie(from, now), seenAs: from}
	size := max(checkHead, q.size)
	before := r.cookie(from, now.Add(-cookieTime))
	if !hmac.Equal(q.cookie[:], a.cookie[:]) && !hmac.Equal(q.cookie[:], before[:]) {
		size = min(size, len(b))
	}
	return a.append(dst, size)
}

// cookie returns bytes that only the receiver at this address can know, this minute.
func (r *checkResponder) cookie(from netip.AddrPort, now time.Time) (c [16]byte) {
	h := hmac.New(sha256.New, r.secret[:])
	ip := from.Addr().As16()
	h.Write(ip[:])
	h.Write(binary.BigEndian.AppendUint16(nil, from.Port()))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(now.Unix()/int64(cookieTime/time.Second))))
	copy(c[:], h.Sum(nil))
	return c
}

// listenForCheck opens the second port of a server whose first is at address. A
// port below zero is any: the one after the first, or a free one, or none.
func listenForCheck(first net.Addr, port int) (*checkResponder, error) {
	addr, ok := first.(*net.UDPAddr)
	if !ok || port == 0 {
		return nil, nil
	}
	on := func(port int) (*checkResponder, error) {
		return newCheckResponder((&net.UDPAddr{IP: addr.IP, Zone: addr.Zone, Port: port}).String())
	}
	if port > 0 {
		r, err := on(port)
		if err != nil {
			return nil, fmt.Errorf("--nat-port %d: %w", port, err)
		}
		return r, nil
	}
	if addr.Port < 65535 {
		if r, err := on(addr.Port + 1); err == nil {
			return r, nil
		}
	}
	if r, err := on(0); err == nil {
		return r, nil
	}
	return nil, nil
}

// appendCheckReply appends the answer of a server to a probeCheck.
func appendCheckReply(dst []byte, q probe, from net.Addr, natPort int, now time.Time) []byte {
	text, err := json.Marshal(checkReply{Address: from.String(), Time: now, NATPort: natPort})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	q.kind = probeChecked
	return append(q.append(dst, probeSize), text...)
}
