package fleet

import (
	"context"
	"net"
	"time"

	"volley/internal/handover"
)

const (
	drainTick  = 50 * time.Millisecond
	drainBatch = 25              // sessions that are told to go in a tick: 500 a second
	drainAgain = 2 * time.Second // after which a client is told again
)

// Drain empties the node before it stops. New clients get no tokens here. Each client is told to go
// to the node with the least load, 500 clients in a second. There a new session begins for it,
// which [secure.Conn.Next] returns at the client; the one here ends with [secure.ErrMoved] as soon
// as the new one stands. If there is no other node, the clients dial the URL again that they have
// dialed.
//
// Drain returns nil when all sessions have ended, and else the cause of ctx's end, or
// net.ErrClosed after Close. The node stays drained.
func (n *Node) Drain(ctx context.Context) error {
	told := make(map[handover.SessionID]time.Time)
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for {
		left := 0
		if !n.do(func() { left = n.drain(time.Now(), told) }) {
			return net.ErrClosed
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drain tells some clients to go. It returns how many are here.
func (n *Node) drain(now time.Time, told map[handover.SessionID]time.Time) (left int) {
	if n.server == nil {
		return 0
	}
	if !n.drains {
		n.drains = true
		n.server.Refuse("the server is about to stop")
		n.beat()
	}
	n.takeEvents(now)
	some := drainBatch
	elsewhere := n.choose(now) != nil
	for id, o := range n.own {
		if some == 0 {
			break
		}
		if at, ok := told[id]; ok && now.Sub(at) < drainAgain {
			continue
		}
		told[id] = now
		some--
		if o.goes = elsewhere; elsewhere {
			n.want(now, id, o) // a fresh token, with the state of now
		} else {
			o.conn.Go(false)
		}
	}
	return len(n.own)
}
