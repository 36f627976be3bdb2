package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"volley"
)

// examinePath finds the largest datagram and what a NAT does, as far as the server helps.
func (o *checkOptions) examinePath(ctx context.Context, r *checkReport, h *hello, server *net.UDPAddr, natPort int) error {
	second := &net.UDPAddr{IP: server.IP, Zone: server.Zone, Port: natPort}
	pc, err := net.ListenUDP("udp", localFor(server))
	if err != nil {
		return err
	}
	defer pc.Close()
	a := &asker{conn: pc, to: second, rtt: h.rtt}
	whole := neverFragment(pc) == nil
	if natPort > 0 {
		a.greet(ctx, time.Duration(o.timeout)/2)
	}
	if !a.known {
		r.noSecondPort(natPort, h)
		r.nat(localAddr(h.local), h.seenAs(), netip.AddrPort{})
		return nil
	}
	r.size(a.largest(ctx), server.IP.To4() != nil, whole && a.whole)
	r.nat(localAddr(pc.LocalAddr()), o.sameSocket(ctx, pc, server), a.seenAs)
	return nil
}

// sameSocket returns how the server sees the socket that asked its second port; zero: unknown.
func (o *checkOptions) sameSocket(ctx context.Context, pc *net.UDPConn, server *net.UDPAddr) netip.AddrPort {
	if o.sessions() != "" || o.protocol != protocolVolley {
		return netip.AddrPort{}
	}
	pc.SetDeadline(time.Time{})
	d := volley.Dialer{Config: o.clientConfig()}
	conn, err := d.DialOn(context.Background(), pc, server)
	if err != nil {
		return netip.AddrPort{}
	}
	defer conn.Close()
	return o.ask(ctx, conn).seenAs()
}

// seenAs returns how the server sees us.
func (h *hello) seenAs() netip.AddrPort {
	a, _ := netip.ParseAddrPort(h.reply.Address)
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// localFor returns the address from which the system sends to another.
func localFor(server *net.UDPAddr) *net.UDPAddr {
	c, err := net.DialUDP("udp", nil, server)
	if err != nil {
		return nil
	}
	defer c.Close()
	local := c.LocalAddr().(*net.UDPAddr)
	return &net.UDPAddr{IP: local.IP, Zone: local.Zone}
}

func localAddr(a net.Addr) netip.AddrPort {
	if u, ok := a.(*net.UDPAddr); ok {
		p := u.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// An asker asks the second port of a server.
type asker struct {
	conn *net.UDPConn
	to   *net.UDPAddr
	rtt  time.Duration
	buf  [checkMax + 1]byte

	known  bool // it has answered, and what follows is set
	whole  bool
	seenAs netip.AddrPort
}

// greet asks for the first time, for our address.
func (a *asker) greet(ctx context.Context, timeout time.Duration) {
	deadline := time.Now().Add(timeout)
	for !a.known && time.Now().Before(deadline) && ctx.Err() == nil {
		if a.send(checkHead) != nil {
			sleep(ctx, askAgain)
			continue
		}
		a.receive(ctx, time.Now().Add(max(askAgain, 2*a.rtt)), func(d checkDatagram, _ int) bool {
			a.known, a.whole, a.seenAs = true, d.whole, d.seenAs
			return false
		})
	}
}

// send sends a question of a size. The error is the system's.
func (a *asker) send(size int) error {
	clear(a.buf[:size])
	new(checkDatagram).put(a.buf[:])
	_, err := a.conn.WriteTo(a.buf[:size], a.to)
	return err
}

// receive calls f for each answer, with its size, until f returns false or time is up.
func (a *asker) receive(ctx context.Context, until time.Time, f func(d checkDatagram, size int) bool) {
	stop := context.AfterFunc(ctx, func() { a.conn.SetReadDeadline(time.Now()) })
	defer stop()
	for ctx.Err() == nil {
		a.conn.SetReadDeadline(until)
		n, from, err := a.conn.ReadFromUDPAddrPort(a.buf[:])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			if time.Now().After(until) {
				return
			}
			sleep(ctx, pauseAfterError)
			continue
		}
		if int(from.Port()) != a.to.Port {
			continue
		}
		if d, ok := parseCheckDatagram(a.buf[:n]); ok && d.answer && !f(d, n) {
			return
		}
	}
}

const (
	sizesAtOnce = 16 // questions that are under way together
	sizeTries   = 3  // of each size, for datagrams get lost by chance, too
)

// largest returns the largest size that passes both ways, up to checkMax.
func (a *asker) largest(ctx context.Context) int {
	passes := 0
	for range 3 {
		if passes == checkMax || ctx.Err() != nil {
			break
		}
		fails := checkMax + 1 // the smallest that has not passed
		for fails-passes > 1 && ctx.Err() == nil {
			list := between(passes, fails)
			passed := a.try(ctx, list, max(askAgain, 2*a.rtt))
			if len(passed) == 0 && passes == 0 {
				break // not even the smallest any more, or all got lost
			}
			if len(passed) > 0 {
				passes = slices.Max(passed)
			}
			for _, s := range list {
				if s > passes {
					fails = min(fails, s)
				}
			}
		}
		// A machine may have stood still for as long as all tries took.
		if passes > 0 && passes < checkMax && len(a.try(ctx, []int{passes + 1}, max(time.Second, 4*a.rtt)/sizeTries)) == 0 {
			break
		}
	}
	return passes
}

// usualSizes are tried first: the payloads of packets of common MTUs, and one byte more.
var usualSizes = []int{checkHead, 548, 549, 1232, 1233, 1452, 1453, 1472, 1473, 8972, 8973, checkMax}

// between returns sizes to try between one that passes and one that does not.
func between(passes, fails int) []int {
	if passes == 0 {
		return usualSizes
	}
	step := max(1, (fails-passes)/(sizesAtOnce+1))
	var out []int
	for s := passes + step; s < fails && len(out) < sizesAtOnce; s += step {
		out = append(out, s)
	}
	return out
}

// try returns which of the sizes pass, each of sizeTries times waiting for so long.
func (a *asker) try(ctx context.Context, list []int, wait time.Duration) (passed []int) {
	for range sizeTries {
		waiting := false
		for _, s := range list {
			if !slices.Contains(passed, s) && !errors.Is(a.send(s), syscall.EMSGSIZE) {
				waiting = true
			}
		}
		if !waiting {
			break
		}
		a.receive(ctx, time.Now().Add(wait), func(_ checkDatagram, size int) bool {
			if slices.Contains(list, size) && !slices.Contains(passed, size) {
				passed = append(passed, size)
			}
			return len(passed) < len(list)
		})
		if len(passed) == len(list) {
			break
		}
	}
	return passed
}
