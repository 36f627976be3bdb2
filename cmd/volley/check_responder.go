package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A checkResponder answers check on a server's second port. It keeps nothing about clients.
type checkResponder struct {
	conn  *net.UDPConn
	whole bool // the system fragments nothing
	wg    sync.WaitGroup
}

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

// pauseAfterError is how long a reader rests after an error, mostly of an earlier datagram.
const pauseAfterError = time.Millisecond

func (r *checkResponder) serve() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(pauseAfterError)
			continue
		}
		if r.answer(buf[:n], from) {
			r.conn.WriteToUDPAddrPort(buf[:n], from) // what does not fit the way is what is asked for
		}
	}
}

// answer makes a question its answer, which is as long, so that nobody gets more than
// was sent in his name. It returns false for anything else.
func (r *checkResponder) answer(b []byte, from netip.AddrPort) bool {
	q, ok := parseCheckDatagram(b)
	if !ok || q.answer {
		return false
	}
	(&checkDatagram{answer: true, whole: r.whole, seenAs: from}).put(b)
	return true
}

// listenForCheck opens the server's second port; below zero: the next one, a free one, or none.
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

func appendCheckReply(dst []byte, q probe, from net.Addr, natPort int, now time.Time) []byte {
	text, err := json.Marshal(checkReply{Address: from.String(), Time: now, NATPort: natPort})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	q.kind = probeChecked
	return append(q.append(dst, probeSize), text...)
}
