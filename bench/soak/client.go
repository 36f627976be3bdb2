package main

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"volley"
	"volley/simnet"
)

// A clientPlace is one of the clients: a place behind a link of its own, with one
// connection after the other.
type clientPlace struct {
	*soak
	slot  int
	rng   *rand.Rand
	proxy *simnet.Proxy
	end   *end      // nil while there is no connection
	port  int       // from which the next one is dialed; 0: any
	from  time.Time // no connection before
	next  time.Time // when something happens to it
	tick  int

	message []byte
}

// slotAddr returns an address on the loopback network that is a slot's own, so
// that no connection of one ever has the address of another's.
func slotAddr(slot int, last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(77 + slot>>8), byte(slot), last})
}

func (s *soak) newClient(slot int) (*clientPlace, error) {
	c := &clientPlace{soak: s, slot: slot, rng: rand.New(rand.NewPCG(s.seed, uint64(slot)))}
	link := s.link
	var err error
	c.proxy, err = simnet.NewProxy(simnet.ProxyConfig{
		Target: s.server.addr, Listen: slotAddr(slot, 2).String() + ":0", Source: slotAddr(slot, 3).String(),
		Up: link, Down: link, Seed: c.rng.Uint64(), MaxClients: 1,
	})
	c.next = time.Now().Add(c.pause())
	return c, err
}

// pause returns how long it is until something happens to the client's connection.
func (c *clientPlace) pause() time.Duration {
	if c.life <= 0 {
		return 1 << 62
	}
	return c.settled + time.Duration(c.rng.ExpFloat64()*float64(c.life))
}

// drive gives some clients their turns until there is an end to it.
func (s *soak) drive(clients []*clientPlace, offset time.Duration) {
	interval := time.Second / time.Duration(s.rate)
	for next := time.Now().Add(offset); s.phase.Load() != stopped; next = next.Add(interval) {
		time.Sleep(time.Until(next))
		if s.lateBy(time.Since(next)) {
			next = time.Now() // what is missed is not made up for
		}
		for _, c := range clients {
			c.turn()
		}
	}
	for _, c := range clients {
		if c.end != nil {
			c.end.close()
		}
		c.proxy.Close()
	}
}

// turn is one tick of a client.
func (c *clientPlace) turn() {
	now := time.Now()
	phase := c.phase.Load()
	switch {
	case c.end == nil:
		if phase == running && !now.Before(c.from) {
			c.dial()
		}
		return
	case c.end.reader.over():
		err := c.end.close()
		c.end.explain(err)
		c.counted.ended.Add(1)
		c.gone(0, 0)
		return
	}
	if phase == running && !c.resting.Load() {
		c.write()
	}
	if c.tick++; c.tick%collectEvery == 0 {
		c.end.collect()
	}
	if phase == running && now.After(c.next) {
		c.happen()
	}
}

// collectEvery is how many ticks receipts wait.
const collectEvery = 4

func (c *clientPlace) dial() {
	d := volley.Dialer{Config: c.config, NetDialer: net.Dialer{
		LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(slotAddr(c.slot, 1), uint16(c.port)))}}
	conn, err := d.Dial(context.Background(), "udp4", c.proxy.Addr().String())
	if err != nil {
		c.counted.dialErrors.Add(1)
		c.gone(0, time.Second)
		return
	}
	c.end = newEnd(c.book, conn, newReader(c.book, server, c.slot))
	c.end.flow = c.book.open(c.slot, client)
	c.counted.dialed.Add(1)
}

// write writes one message.
func (c *clientPlace) write() {
	n := c.end.flow.begin()
	c.message = appendMessage(c.message[:0], c.end.flow.name, n, c.size(n))
	id, err := c.end.conn.WriteMessage(c.message)
	if id != 0 || err == nil { // 0 is the number of a first message
		c.end.flow.wrote(n, id)
	}
	if err != nil {
		c.counted.writeErrors.Add(1)
	}
}

// gone forgets the connection. The next one comes from a port, after a while.
func (c *clientPlace) gone(port int, after time.Duration) {
	c.end, c.port, c.from = nil, port, time.Now().Add(after)
	c.next = c.from.Add(c.pause())
}

// An event is what happens to a connection from outside.
type event int

const (
	kill event = iota
	restart
	rebind
	turnOut
	events
)

var eventNames = [events]string{"kill", "restart", "rebind", "close"}

// happen does something to the connection.
func (c *clientPlace) happen() {
	c.book.slots[c.slot].disturb(c.book)
	port := c.end.conn.LocalAddr().(*net.UDPAddr).Port
	switch c.events[c.rng.IntN(len(c.events))] {
	case kill: // the program is gone, and comes back some time or other
		c.counted.kills.Add(1)
		c.end.close()
		c.gone(0, time.Duration(c.rng.Int64N(int64(5*time.Second))))
	case restart: // the program starts again, on its port
		c.counted.restarts.Add(1)
		c.end.close()
		c.gone(port, 0)
	case rebind: // the network gives it another address
		c.counted.rebinds.Add(1)
		c.next = time.Now().Add(c.pause())
		if c.proxy.Rebind() != nil {
			c.counted.dialErrors.Add(1)
		}
	case turnOut: // the server does not want it any more
		c.counted.closes.Add(1)
		c.next = time.Now().Add(c.pause())
		c.server.turnOut(c.slot)
	}
}
