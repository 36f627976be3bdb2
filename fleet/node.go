package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"volley/internal/handover"
	"volley/internal/registry"
	"volley/secure"
)

// A Node is a member of a fleet. It is safe for concurrent use.
type Node struct {
	cfg    Config
	id     instance
	key    *key
	seal   sealer
	engine engine

	messages chan *nats.Msg
	calls    chan func() // for the loop
	done     chan struct{}
	quit     chan struct{}
	close    sync.Once
	wake     chan struct{}

	mu     sync.Mutex
	events map[handover.SessionID]handover.Event // which the loop has not seen
	wants  map[handover.SessionID]bool

	// The loop owns what follows.
	listener *secure.Listener
	server   handover.Server // nil: there is no Listener
	public   string          // where clients reach it
	seq      uint64          // of the last message to all
	load     float64         // negative: the number of sessions
	drains   bool
	bye      bool
	resync   bool // all seats are to be announced
	peers    map[instance]*peer
	seats    map[handover.SessionID]seat // at other nodes
	own      map[handover.SessionID]*own
	wanting  []handover.SessionID // a spare token
	changes  []change             // to be announced
	asked    map[uint64]*asked
	lastAsk  uint64
	counts   Stats
}

// A seat is where a session is.
type seat struct {
	peer       *peer
	generation uint64
}

// An own is a session at this node.
type own struct {
	conn       handover.Session
	generation uint64
	target     *peer     // for which the client has a spare token; nil: none
	ready      bool      // it has it
	asked      time.Time // when a token was wanted last
	waits      bool      // it is in Node.wanting, or a node has been asked
	goes       bool      // the client is to go by the token
}

const (
	beatInterval  = 200 * time.Millisecond
	silence       = 5 * beatInterval // after which a node is dead
	forgetTime    = 5 * time.Minute  // after which its sessions are forgotten
	resyncPace    = beatInterval
	queueMessages = 16 << 10
)

// Join makes the process a node of a fleet. It does not wait for other nodes. The context is for
// the beginning. The errors are a *[ConfigError], those of the key file, and those of NATS.
func Join(ctx context.Context, cfg *Config) (*Node, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	k, err := loadKey(cfg.KeyFile)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg:      *cfg,
		key:      k,
		messages: make(chan *nats.Msg, queueMessages),
		calls:    make(chan func()),
		done:     make(chan struct{}),
		quit:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		events:   make(map[handover.SessionID]handover.Event),
		wants:    make(map[handover.SessionID]bool),
		load:     -1,
		peers:    make(map[instance]*peer),
		seats:    make(map[handover.SessionID]seat),
		own:      make(map[handover.SessionID]*own),
		asked:    make(map[uint64]*asked),
	}
	rand.Read(n.id[:])
	n.seal = k.sealer(n.id)
	err = n.start(ctx)
	if err == nil {
		err = n.subscribe()
	}
	if err != nil {
		n.engine.stop()
		return nil, err
	}
	go n.loop()
	registry.AddNode((*view)(n))
	return n, nil
}

// subscribe has the messages for all nodes and those for this one come by one channel, so that
// those of a sender stay in order.
func (n *Node) subscribe() error {
	for _, subject := range []string{n.all(), n.to(n.id)} {
		if _, err := n.engine.control.ChanSubscribe(subject, n.messages); err != nil {
			return err
		}
	}
	return n.engine.control.FlushTimeout(startTime)
}

// NATS returns the application's connection, on which the subjects of the nodes are out of
// reach. It lives as long as the Node.
func (n *Node) NATS() *nats.Conn { return n.engine.app }

// Cluster returns the TCP address at which other nodes reach the server of NATS in this process,
// with the real port. It is nil if there is none.
func (n *Node) Cluster() net.Addr {
	if n.engine.server == nil {
		return nil
	}
	if a := n.engine.server.ClusterAddr(); a != nil {
		return a
	}
	return nil
}

// Listen starts the node's server, of which there is one, as [secure.ListenConfig.Listen] does.
// A ClientID has one session at each node, and not one in the fleet.
// If cfg has neither KeyFile nor TLS, the key is the fleet's. Other nodes send clients to
// cfg.Public, or else to the address listened on. If that is a wildcard, they send them to the
// host of [Config].Cluster, and without that to 127.0.0.1.
func (n *Node) Listen(network, address string, cfg *secure.ListenConfig) (*secure.Listener, error) {
	var lc secure.ListenConfig
	if cfg != nil {
		lc = *cfg
	}
	if lc.KeyFile == "" && lc.TLS == nil {
		lc.KeyFile = n.cfg.KeyFile
	}
	l, err := lc.Listen(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	public := lc.Public
	if !public.IsValid() {
		if public, err = n.reachable(l.Addr()); err != nil {
			l.Close()
			return nil, err
		}
	}
	err = net.ErrClosed
	n.do(func() {
		if err = errListens; n.server == nil {
			err = nil
			n.listener, n.server, n.public = l, handover.Of(l), public.String()
			n.server.Watch(n.watch)
			n.beat()
		}
	})
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

var errListens = errors.New("fleet: the node has a Listener")

// reachable returns where clients reach an address that is listened on.
func (n *Node) reachable(a net.Addr) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return ap, err
	}
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	if !ap.Addr().IsUnspecified() {
		return ap, nil
	}
	host, _, err := n.cfg.cluster()
	if err != nil {
		return ap, err
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.IsUnspecified() {
		return ap, &ConfigError{"Cluster", "other nodes cannot send clients to " + a.String() + "; set secure.ListenConfig.Public"}
	}
	return netip.AddrPortFrom(ip, ap.Port()), nil
}

// do has the loop call a function, unless the Node is closed.
func (n *Node) do(f func()) bool {
	called := make(chan struct{})
	select {
	case n.calls <- func() { f(); close(called) }:
		<-called
		return true
	case <-n.done:
		return false
	}
}

// SetLoad sets how much load the node has, in sessions. Others send clients to the node with the
// least. With +Inf they send none. A negative number, and NaN: the number of its sessions, the
// default.
func (n *Node) SetLoad(load float64) {
	if math.IsNaN(load) {
		load = -1
	}
	n.do(func() {
		n.load = load
		n.beat()
	})
}

// Load returns the load as other nodes see it; 0 after Close.
func (n *Node) Load() (load float64) {
	n.do(func() { load = n.loadNow() })
	return load
}

func (n *Node) loadNow() float64 {
	if n.load < 0 {
		return float64(len(n.own))
	}
	return n.load
}

// A Peer is another node as this one sees it.
type Peer struct {
	Name     string
	Load     float64
	Sessions int
	Drains   bool          // it wants no clients
	Alive    bool          // it was heard within a second
	Heard    time.Duration // since it was heard last
}

// Peers returns the other nodes, in order of their names. Those that have closed, and those that
// were not heard for five minutes, are not there.
func (n *Node) Peers() (peers []Peer) {
	n.do(func() { peers = n.peersNow() })
	return peers
}

func (n *Node) peersNow() (peers []Peer) {
	now := time.Now()
	for _, p := range n.peers {
		peers = append(peers, Peer{
			Name: p.name, Load: p.load, Sessions: int(p.sessions), Drains: p.flags&flagDrains != 0,
			Alive: p.alive, Heard: now.Sub(p.heard),
		})
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	return peers
}

// Stats are figures of a [Node].
type Stats struct {
	Sessions int    // of now
	Spared   int    // those of which the client has a token for another node
	Came     uint64 // sessions that have come from other nodes
	Left     uint64 // sessions that have gone, or were silent
	Yielded  uint64 // sessions that ended here because they were at another node
	Given    uint64 // spare tokens of other nodes that clients here were given
	Sealed   uint64 // spare tokens for here that other nodes were given
	Refused  uint64 // those that they asked for and were not given
	Bad      uint64 // messages that were not from nodes, or malformed
	Missed   uint64 // times that messages of a node were missed
}

// Stats returns the figures of the node, all zero after Close.
func (n *Node) Stats() (s Stats) {
	n.do(func() { s = n.statsNow() })
	return s
}

func (n *Node) statsNow() Stats {
	s := n.counts
	s.Sessions = len(n.own)
	for _, o := range n.own {
		if o.ready && o.target.takes() {
			s.Spared++
		}
	}
	return s
}

// A view is a Node as package volleydebug sees it.
type view Node

// View implements registry.NodeViewer.
func (v *view) View(to *registry.Node) bool {
	n := (*Node)(v)
	return n.do(func() {
		s := n.statsNow()
		*to = registry.Node{
			Name: n.cfg.Name, Sessions: s.Sessions, Spared: s.Spared, Load: n.loadNow(), Drains: n.drains,
			Came: s.Came, Left: s.Left, Yielded: s.Yielded, Given: s.Given, Sealed: s.Sealed, Refused: s.Refused,
			Bad: s.Bad, Missed: s.Missed,
		}
		for _, p := range n.peersNow() {
			to.Peers = append(to.Peers, registry.Peer{
				Name: p.Name, Sessions: p.Sessions, Load: p.Load, Drains: p.Drains, Alive: p.Alive, Heard: p.Heard,
			})
		}
	})
}

// Close leaves the fleet. The Listener and its sessions live on, without spare tokens for other
// nodes. [Node.NATS] is closed.
func (n *Node) Close() error {
	n.close.Do(func() { close(n.quit) })
	<-n.done
	return nil
}

func (n *Node) log(level slog.Level, msg string, args ...any) {
	if n.cfg.Logger != nil {
		n.cfg.Logger.Log(context.Background(), level, "fleet: "+msg, append([]any{"node", n.cfg.Name}, args...)...)
	}
}

// watch takes an event of a session. Later ones take the place of earlier ones.
func (n *Node) watch(e handover.Event) {
	n.mu.Lock()
	former, known := n.events[e.Session]
	switch {
	case e.Kind == handover.Wants:
		n.wants[e.Session] = true
	case !known, former.Kind != handover.Over && e.Generation >= former.Generation, e.Kind == handover.Over:
		n.events[e.Session] = e
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// loop does all work of the node.
func (n *Node) loop() {
	defer close(n.done)
	tick := time.NewTicker(beatInterval)
	defer tick.Stop()
	n.beat()
	for {
		select {
		case m := <-n.messages:
			n.receive(m)
			for range len(n.messages) { // one answer for many
				n.receive(<-n.messages)
			}
		case <-n.wake:
		case f := <-n.calls:
			f()
		case <-tick.C:
			n.tick(time.Now())
		case <-n.quit:
			n.leave()
			return
		}
		n.takeEvents(time.Now())
		n.announce()
		n.askForSpares(time.Now())
	}
}

// leave says goodbye.
func (n *Node) leave() {
	registry.RemoveNode((*view)(n))
	if n.server != nil {
		n.server.Watch(nil)
	}
	n.bye = true
	n.beat()
	n.engine.stop()
}

// takeEvents takes what has become of sessions.
func (n *Node) takeEvents(now time.Time) {
	n.mu.Lock()
	var events map[handover.SessionID]handover.Event
	var wants map[handover.SessionID]bool
	if len(n.events) > 0 {
		events, n.events = n.events, make(map[handover.SessionID]handover.Event)
	}
	if len(n.wants) > 0 {
		wants, n.wants = n.wants, make(map[handover.SessionID]bool)
	}
	n.mu.Unlock()
	for id, e := range events {
		n.take(now, id, e)
	}
	for id := range wants {
		if o := n.own[id]; o != nil && now.Sub(o.asked) >= wantPace {
			n.want(now, id, o)
		}
	}
}

func (n *Node) take(now time.Time, id handover.SessionID, e handover.Event) {
	o := n.own[id]
	switch e.Kind {
	case handover.Begun, handover.Moved:
		if o == nil {
			o = new(own)
			n.own[id] = o
			if e.Generation > 1 && e.Kind == handover.Begun {
				n.counts.Came++
			}
		}
		o.conn, o.generation = e.Conn, e.Generation
		n.changes = append(n.changes, change{changeHere, id, e.Generation})
		if s, ok := n.seats[id]; ok && s.generation > e.Generation {
			n.yield(id, s.generation) // it came by a token that was of no use any more
			return
		}
		delete(n.seats, id)
		n.want(now, id, o)
	case handover.Left, handover.Over:
		if o != nil {
			n.retarget(o, nil)
			delete(n.own, id)
		}
		kind := byte(changeLeft)
		if e.Kind == handover.Over {
			kind = changeOver
		} else {
			n.counts.Left++
		}
		n.changes = append(n.changes, change{kind, id, e.Generation})
	}
}

// yield ends a session of a lower generation.
func (n *Node) yield(id handover.SessionID, generation uint64) {
	if o := n.own[id]; o != nil && o.generation < generation {
		n.counts.Yielded++
	}
	n.server.Yield(id, generation)
}

// tick does what is due.
func (n *Node) tick(now time.Time) {
	n.beat()
	for id, p := range n.peers {
		quiet := now.Sub(p.heard)
		if p.alive && quiet > silence {
			p.alive = false
			n.log(slog.LevelWarn, "a node is silent", "peer", p.name)
		}
		if quiet > forgetTime {
			n.forget(id)
		}
	}
	for id, a := range n.asked {
		if now.Sub(a.at) > askTimeout {
			delete(n.asked, id)
			a.peer.shuns = now.Add(shunTime)
			n.unanswered(a.sessions)
		}
	}
	for id, o := range n.own {
		if !o.waits && !o.target.takes() && now.Sub(o.asked) >= wantPace {
			n.want(now, id, o)
		}
	}
	if n.resync {
		n.resync = false
		n.announceAll()
	}
}
