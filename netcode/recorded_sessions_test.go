package netcode

import (
	"net/netip"
	"testing"
	"time"

	"volley/internal/tape"
	"volley/internal/wire"
)

// A recordedWorld is some clients and two servers in virtual time. All randomness is
// taken from a seed, keys and nonces too, and all that comes out is noted.
type recordedWorld struct {
	t       *testing.T
	tape    *tape.Scene
	rng     tape.Rand
	now     time.Time
	servers [2]*server
	clients []*recordedClient
	flight  []recordedArrival
	seen    []recordedArrival // all that was ever under way

	latency         time.Duration
	loss, dup, bent int // of a thousand
	dark            [2]bool
	chat            int // of a thousand steps a client or session says something
}

type recordedArrival struct {
	at       time.Time
	from, to netip.AddrPort
	data     []byte
}

type recordedClient struct {
	*client
	from netip.AddrPort
	next time.Time
	got  int
}

var recordedServers = [2]netip.AddrPort{testServerAddr, netip.MustParseAddrPort("[2001:db8::2]:7778")}

func recordedKey(rng *tape.Rand) (k Key) {
	rng.Bytes(k[:])
	return k
}

func newRecordedWorld(t *testing.T, p *tape.Tape, name string, change func(*serverConfig)) *recordedWorld {
	w := &recordedWorld{t: t, tape: p.Scene("%s", name), rng: tape.Rand(len(name)), now: testStart, latency: 15 * time.Millisecond}
	for i := range w.servers {
		cfg := testServerConfig()
		cfg.addresses, cfg.maxClients = recordedServers[i:i+1], 4
		if change != nil {
			change(&cfg)
		}
		s := newServer(w.now, cfg)
		key := recordedKey(&w.rng)
		s.challenges, s.globalSeq = newChallengeCipher(&key), uint64(1000*i)
		s.fromZero = true // what is random is not for a recording
		w.servers[i] = s
	}
	return w
}

// token returns a token of a client.
func (w *recordedWorld) token(id uint64, change func(*Issuer)) *Token {
	is := testIssuer()
	is.Servers, is.Lifetime = recordedServers[:], 30*time.Second
	if change != nil {
		change(is)
	}
	var data [UserDataSize]byte
	w.rng.Bytes(data[:])
	var nonce [tokenNonceSize]byte
	w.rng.Bytes(nonce[:])
	tok, err := is.issue(w.now, id, data[:w.rng.Below(UserDataSize+1)], recordedKey(&w.rng), recordedKey(&w.rng), nonce)
	if err != nil {
		w.t.Fatal(err)
	}
	return tok
}

// dial begins a client.
func (w *recordedWorld) dial(tok *Token, cfg clientConfig) *recordedClient {
	c := &recordedClient{client: newClient(cfg), from: clientAddr(len(w.clients)), next: w.now}
	c.connect(w.now, tok)
	w.clients = append(w.clients, c)
	return c
}

var recordedConfig = clientConfig{interval: sendInterval, window: 256, fromZero: true}

// put puts what was appended on the network.
func (w *recordedWorld) put(from, to netip.AddrPort, out *wire.Batch) {
	for i := range out.Len() {
		b := append([]byte(nil), out.At(i)...)
		w.tape.Note(int64(w.now.Sub(testStart)), int64(from.Port()), int64(to.Port()))
		w.tape.Data(b)
		w.seen = append(w.seen, recordedArrival{w.now, from, to, append([]byte(nil), b...)})
		for range 1 + tape.Truth(w.rng.Chance(w.dup)) {
			late := time.Duration(w.rng.Below(int(w.latency)))
			lost := w.rng.Chance(w.loss)
			if w.rng.Chance(w.bent) {
				b = append([]byte(nil), b[:w.rng.Between(1, len(b))]...)
				b[w.rng.Below(len(b))] ^= 1 << w.rng.Below(8)
			}
			for i, addr := range recordedServers {
				lost = lost || w.dark[i] && (from == addr || to == addr)
			}
			if !lost {
				w.flight = append(w.flight, recordedArrival{w.now.Add(w.latency + late), from, to, b})
			}
		}
	}
	out.Reset()
}

// pass lets time pass, in steps.
func (w *recordedWorld) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(7 * time.Millisecond) {
		flight := w.flight
		w.flight = nil
		for _, d := range flight {
			if d.at.After(w.now) {
				w.flight = append(w.flight, d)
			} else {
				w.arrive(d)
			}
		}
		for _, c := range w.clients {
			w.advance(c)
		}
		for i, s := range w.servers {
			w.serve(recordedServers[i], s)
		}
	}
}

func (w *recordedWorld) arrive(d recordedArrival) {
	var out wire.Batch
	for _, c := range w.clients {
		if c.from == d.to {
			payload := c.receive(w.now, d.from, d.data)
			if payload != nil {
				c.got++
			}
			w.tape.Data(payload)
			if c.due || c.leaving {
				c.next = w.now
			}
		}
	}
	for i, s := range w.servers {
		if recordedServers[i] != d.to {
			continue
		}
		sess := s.sessions[d.from]
		if sess == nil {
			made, reason := s.receive(w.now, d.from, d.data, &out)
			w.tape.Note(int64(reason), tape.Truth(made != nil))
			if made != nil {
				w.tape.Note(int64(made.id), int64(made.index), int64(made.timeout))
				w.tape.Data(made.userData[:])
			}
			w.put(d.to, d.from, &out)
			continue
		}
		p, reason := sess.receive(w.now, d.data)
		w.tape.Note(int64(reason), int64(p.typ), int64(p.seq))
		w.tape.Data(p.body)
		if reason != dropNone {
			continue
		}
		if sess.confirmed = true; p.typ == packetDisconnect {
			s.remove(sess)
		}
	}
}

func (w *recordedWorld) advance(c *recordedClient) {
	if !c.next.IsZero() && !w.now.Before(c.next) {
		var out wire.Batch
		to := c.addr
		c.next = c.client.advance(w.now, &out)
		w.put(c.from, to, &out)
		w.tape.Note(tape.Truth(c.next.IsZero()), int64(c.next.Sub(testStart)), int64(c.state), int64(c.server), int64(len(c.attempts)),
			int64(c.slot), int64(c.slots), int64(c.send.packets()), tape.Truth(c.confirmed))
	}
	if c.state == stateConnected && w.rng.Chance(w.chat) {
		var out wire.Batch
		c.sendPayload(w.now, w.text(), &out)
		w.put(c.from, c.addr, &out)
	}
}

func (w *recordedWorld) text() []byte {
	b := make([]byte, 1+w.rng.Below(60))
	w.rng.Bytes(b)
	return b
}

func (w *recordedWorld) serve(addr netip.AddrPort, s *server) {
	var out wire.Batch
	for _, c := range w.clients {
		sess := s.sessions[c.from]
		if sess == nil {
			continue
		}
		next := sess.keepAlive(w.now, &out)
		if w.rng.Chance(w.chat) {
			sess.sendPayload(w.now, w.text(), &out)
		}
		w.put(addr, c.from, &out)
		w.tape.Note(int64(next.Sub(testStart)), int64(sess.deadline().Sub(testStart)), int64(sess.send.packets()), tape.Truth(sess.send.exhausted()))
		if sess.timedOut(w.now) {
			s.remove(sess)
		}
	}
	next := tick(s, w.now)
	w.tape.Note(tape.Truth(next.IsZero()), int64(next.Sub(testStart)), int64(len(s.handshakes.entries)), int64(len(s.history.entries)),
		int64(s.history.lasting), int64(s.history.forgotten), int64(len(s.sessions)), tape.Truth(s.slots.full(uint32(s.cfg.maxClients))))
}

func (w *recordedWorld) phase(name string) {
	w.t.Helper()
	figures := []any{"time", w.now.Sub(testStart)}
	for i, c := range w.clients {
		d := c.recv.dropped()
		if i < 8 {
			figures = append(figures, "client", c.state.String(), "server", c.server, "sent", c.send.packets(), "got", c.got, "drops", sum(d))
		}
		for r, n := range d {
			w.tape.Note(int64(r), int64(n))
		}
		for _, a := range c.attempts {
			w.tape.Note(int64(a.state), int64(a.elapsed), int64(a.server.Port()), tape.Truth(a.err != nil))
		}
	}
	for _, s := range w.servers {
		n := &s.counts
		figures = append(figures, "requests", n.requests, "responses", n.responses, "challenges", n.challenges, "denied", n.denied,
			"accepted", n.accepted, "dropped", sum(n.drops), "sessions", len(s.sessions), "pending", len(s.handshakes.entries), "tokens", len(s.history.entries))
		for r, n := range n.drops {
			w.tape.Note(int64(r), int64(n))
		}
	}
	w.tape.Phase(name, figures...)
}

func sum(d dropCounts) (all uint64) {
	for _, n := range d {
		all += n
	}
	return all
}

// TestRecordedSessions plays scenes of clients and servers, and compares all that
// comes out of them with what came out before.
func TestRecordedSessions(t *testing.T) {
	p := tape.Open(t, "sessions", "What clients and servers do in the scenes of TestRecordedSessions.")
	for _, scene := range recordedScenes() {
		scene.play(newRecordedWorld(t, p, scene.name, scene.change))
	}
}

type recordedScene struct {
	name   string
	change func(*serverConfig)
	play   func(w *recordedWorld)
}

func recordedScenes() []recordedScene {
	return []recordedScene{
		{"few", nil, func(w *recordedWorld) {
			for i := range 3 {
				w.dial(w.token(uint64(100+i), nil), recordedConfig)
			}
			w.pass(300 * time.Millisecond)
			w.phase("joined")
			w.chat = 100
			w.pass(time.Second)
			w.phase("talk")
			w.chat = 0
			w.pass(3 * time.Second)
			w.phase("idle")
			var out wire.Batch
			w.clients[1].disconnect(w.now, &out)
			w.put(w.clients[1].from, recordedServers[0], &out)
			s := w.servers[0].sessions[w.clients[2].from]
			s.send.disconnect(w.now, &out)
			w.put(recordedServers[0], s.addr, &out)
			w.servers[0].remove(s)
			w.pass(500 * time.Millisecond)
			w.dial(w.token(200, nil), recordedConfig)
			w.pass(500 * time.Millisecond)
			w.phase("left")
			for _, s := range w.servers {
				s.stop()
			}
			w.pass(100 * time.Millisecond)
			w.phase("stopped")
		}},
		{"quiet", func(cfg *serverConfig) { cfg.interval = 0 }, func(w *recordedWorld) {
			for i := range 4 {
				cfg := clientConfig{window: 64 << i, paced: i == 1}
				w.dial(w.token(uint64(i), func(is *Issuer) { is.Timeout = time.Duration(5*i-1) * time.Second }), cfg)
			}
			w.pass(2 * time.Second)
			w.phase("joined")
			w.pass(5 * time.Second)
			w.phase("quiet")
			w.chat = 50
			w.pass(time.Second)
			w.dark[0] = true
			w.pass(20 * time.Second)
			w.phase("dark")
		}},
		{"crowd", nil, func(w *recordedWorld) {
			w.loss, w.dup, w.latency, w.chat = 250, 200, 40*time.Millisecond, 60
			for i := range 14 {
				w.dial(w.token(uint64(1+i%12), nil), recordedConfig)
				w.pass(time.Duration(w.rng.Below(150)) * time.Millisecond)
			}
			w.phase("come")
			w.pass(4 * time.Second)
			w.phase("play")
			for _, c := range w.clients[:5] {
				var out wire.Batch
				c.disconnect(w.now, &out)
				w.put(c.from, c.addr, &out)
			}
			w.pass(time.Second)
			for i := range 5 {
				w.dial(w.token(uint64(100+i), nil), recordedConfig)
			}
			w.pass(10 * time.Second)
			w.phase("others")
			w.pass(30 * time.Second)
			w.phase("forgotten")
		}},
		{"bent", nil, func(w *recordedWorld) {
			w.bent, w.chat = 300, 100
			for i := range 3 {
				w.dial(w.token(uint64(i), nil), recordedConfig)
			}
			w.pass(4 * time.Second)
			w.phase("bent")
		}},
		{"second server", nil, func(w *recordedWorld) {
			w.dark[0] = true
			w.dial(w.token(1, nil), recordedConfig)
			w.dial(w.token(2, func(is *Issuer) { is.Servers = is.Servers[:1] }), recordedConfig)
			w.dial(w.token(3, func(is *Issuer) { is.Lifetime = 3 * time.Second }), recordedConfig)
			w.dial(w.token(4, func(is *Issuer) { is.Lifetime = -1; is.Timeout = 2 * time.Second }), recordedConfig)
			w.pass(4 * time.Second)
			w.phase("silent")
			w.chat = 50
			w.pass(4 * time.Second)
			w.phase("found")
			w.dark[1] = true
			w.pass(8 * time.Second)
			w.phase("lost")
		}},
		{"half way", nil, func(w *recordedWorld) {
			for i := range 2 {
				w.dial(w.token(uint64(i), nil), recordedConfig)
			}
			for w.servers[0].counts.challenges < 2 {
				w.pass(7 * time.Millisecond)
			}
			w.pass(21 * time.Millisecond)
			w.dark[0] = true
			w.pass(4 * time.Second)
			w.phase("waiting")
			w.pass(3 * time.Second)
			w.phase("next")
			w.dark[1] = true
			w.pass(12 * time.Second)
			w.phase("over")
		}},
		{"replay", nil, func(w *recordedWorld) {
			w.chat = 100
			for i := range 3 {
				w.dial(w.token(uint64(i), nil), recordedConfig)
			}
			again := func(name string) {
				w.chat = 0
				for _, d := range append([]recordedArrival(nil), w.seen...) {
					d.at, d.data = w.now, append([]byte(nil), d.data...)
					if w.rng.Chance(200) {
						d.from = clientAddr(90)
					}
					w.flight = append(w.flight, d)
				}
				w.pass(50 * time.Millisecond)
				w.phase(name)
			}
			w.pass(100 * time.Millisecond)
			again("early")
			w.chat = 100
			w.pass(2 * time.Second)
			again("late")
			w.pass(7 * time.Second)
			var out wire.Batch
			w.clients[0].disconnect(w.now, &out)
			w.put(w.clients[0].from, recordedServers[0], &out)
			w.pass(100 * time.Millisecond)
			again("gone")
			w.pass(40 * time.Second)
			again("expired")
		}},
		{"tokens", func(cfg *serverConfig) { cfg.lifetime = 20 * time.Second }, func(w *recordedWorld) {
			for i, change := range []func(*Issuer){
				func(is *Issuer) { is.Lifetime = 19 * time.Second }, func(is *Issuer) { is.Lifetime = 20 * time.Second },
				func(is *Issuer) { is.ProtocolID++ }, func(is *Issuer) { is.PrivateKey[0]++ }, func(is *Issuer) { is.Lifetime = -1 },
				func(is *Issuer) { is.InternalServers = []netip.AddrPort{clientAddr(70), clientAddr(71)} },
				func(is *Issuer) { is.InternalServers = []netip.AddrPort{clientAddr(70), recordedServers[0]} },
				func(is *Issuer) { is.Lifetime = time.Second; is.Timeout = -1 },
			} {
				w.dial(w.token(uint64(i), change), recordedConfig)
				w.pass(60 * time.Millisecond)
			}
			w.pass(2 * time.Second)
			w.phase("first")
			tok := w.token(50, nil)
			w.dial(tok, recordedConfig)
			w.pass(40 * time.Millisecond)
			w.dial(tok, recordedConfig)
			w.dial(w.token(1, nil), recordedConfig)
			w.pass(2 * time.Second)
			w.phase("twice")
			w.pass(25 * time.Second)
			w.phase("later")
		}},
		{"no key", func(cfg *serverConfig) { cfg.privateKey = Key{} }, func(w *recordedWorld) {
			w.dial(w.token(1, nil), recordedConfig)
			w.pass(time.Second)
			w.phase("refused")
		}},
		{"network", nil, func(w *recordedWorld) {
			w.dark[0] = true
			for i := range 5 {
				w.dial(w.token(uint64(i), nil), recordedConfig)
			}
			c := w.clients
			c[1].abandon(w.now, errRefused)
			c[2].refuse(w.now)
			c[3].refuse(w.now)
			w.pass(994 * time.Millisecond)
			c[2].refuse(w.now)
			w.pass(14 * time.Millisecond)
			c[3].refuse(w.now)
			c[4].abandon(w.now, errRefused)
			c[4].abandon(w.now, errRefused)
			c[4].abandon(w.now, errRefused)
			c[4].refuse(w.now)
			w.phase("errors")
			w.pass(time.Second)
			c[3].refuse(w.now)
			w.pass(2 * time.Second)
			c[3].refuse(w.now)
			w.phase("connected")
		}},
		{"exhausted", nil, func(w *recordedWorld) {
			for i := range 2 {
				w.dial(w.token(uint64(i), nil), recordedConfig)
			}
			w.pass(200 * time.Millisecond)
			for _, s := range w.servers[0].sessions {
				s.send.seq = s.send.end - sequenceReserve - 3
			}
			w.clients[0].recv.window.mark(1<<40 - 300)
			w.phase("near")
			w.pass(4 * time.Second)
			w.phase("reserve")
			w.pass(8 * time.Second)
			w.phase("spent")
		}},
	}
}

// Addresses that are every machine's own are a server's only where no other is.
func TestPlaces(t *testing.T) {
	loop, own := netip.MustParseAddrPort("127.0.0.1:7"), netip.MustParseAddrPort("10.0.0.9:7")
	mapped := netip.AddrPortFrom(netip.AddrFrom16(own.Addr().As16()), own.Port())
	s := newTestServer(func(cfg *serverConfig) { cfg.addresses = []netip.AddrPort{loop, own} })
	for _, test := range []struct {
		servers []netip.AddrPort
		want    int
	}{
		{nil, -1},
		{[]netip.AddrPort{clientAddr(1)}, -1},
		{[]netip.AddrPort{loop}, 0},
		{[]netip.AddrPort{clientAddr(1), loop, loop}, 1},
		{[]netip.AddrPort{loop, own}, 1},
		{[]netip.AddrPort{loop, clientAddr(1), mapped, own}, 2},
		{[]netip.AddrPort{own, loop}, 0},
	} {
		var p privateToken
		p.numServers = copy(p.servers[:], test.servers)
		if got := s.place(&p); got != test.want {
			t.Errorf("place in %v = %d, want %d", test.servers, got, test.want)
		}
	}
}
