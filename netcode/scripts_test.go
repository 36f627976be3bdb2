package netcode

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"volley/internal/wire"
)

// scriptTime converts the clock of a script.
func scriptTime(seconds float64) time.Time {
	return time.Unix(1_000_000, int64(math.Round(seconds*1e9)))
}

// A scriptAddr is an address in a script.
type scriptAddr struct{ netip.AddrPort }

func (a *scriptAddr) UnmarshalText(b []byte) (err error) {
	a.AddrPort, err = parseAddr(string(b))
	return err
}

// A scriptPacket is a datagram in a script, to or from somebody.
type scriptPacket struct {
	From, To scriptAddr
	Type     string
	Packet   hexBytes
}

type scriptPayload struct {
	Slot     uint32
	Sequence num
	Data     hexBytes
}

type scriptSlot struct {
	Slot      uint32
	ClientID  num        `json:"client_id"`
	Address   scriptAddr `json:"address"`
	Confirmed bool
}

type scriptStep struct {
	Note string
	Time float64
	Unix num
	In   []scriptPacket
	App  *struct {
		Call string
		Slot uint32
		Data hexBytes
	}
	Received   []scriptPayload
	Out        []scriptPacket
	Slots      []scriptSlot
	State      state
	Index      *uint32 `json:"client_index"`
	MaxClients uint32  `json:"max_clients"`
}

// checkOut compares the datagrams sent, per destination.
func checkOut(t *testing.T, got, want []scriptPacket) {
	t.Helper()
	by := func(ps []scriptPacket) map[netip.AddrPort][]string {
		m := make(map[netip.AddrPort][]string)
		for _, p := range ps {
			m[p.To.AddrPort] = append(m[p.To.AddrPort], fmt.Sprintf("%x", []byte(p.Packet)))
		}
		return m
	}
	g, w := by(got), by(want)
	for to, ps := range w {
		if !slices.Equal(g[to], ps) {
			t.Errorf("sent to %v:\n%q, want\n%q", to, g[to], ps)
		}
		delete(g, to)
	}
	for to, ps := range g {
		t.Errorf("sent to %v: %q, want nothing", to, ps)
	}
}

func checkReceived(t *testing.T, got, want []scriptPayload) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b scriptPayload) bool {
		return a.Slot == b.Slot && a.Sequence == b.Sequence && bytes.Equal(a.Data, b.Data)
	}) {
		t.Errorf("received %v, want %v", got, want)
	}
}

// A scriptServer drives a server core as a script tells.
type scriptServer struct {
	*server
	unix     uint64
	sessions []*session // by slot
	out      []scriptPacket
	received []scriptPayload
}

func newScriptServer(t *testing.T, c *serverScript, lifetime time.Duration) *scriptServer {
	t.Helper()
	if c.StartUnix == 0 || len(c.ChallengeKey) != keySize {
		t.Fatal("incomplete script")
	}
	s := &scriptServer{unix: uint64(c.StartUnix), sessions: make([]*session, c.MaxClients)}
	s.server = newServer(scriptTime(c.StartTime), serverConfig{
		protocolID: uint64(c.ProtocolID),
		privateKey: c.PrivateKey.key(),
		addresses:  []netip.AddrPort{c.ServerAddress.AddrPort},
		maxClients: c.MaxClients,
		interval:   sendInterval,
		window:     referenceWindow,
	})
	s.wall = func(time.Time) uint64 { return s.unix }
	if lifetime > 0 {
		s.requests.minExpires = s.unix + uint64(lifetime/time.Second)
	}
	key := c.ChallengeKey.key()
	s.challenges = newChallengeCipher(&key)
	s.globalSeq = 0
	s.unbound, s.fromZero = true, true // the scripts' challenges were recorded
	return s
}

// collect takes the datagrams for one destination from a batch.
func (s *scriptServer) collect(to netip.AddrPort, out *wire.Batch) {
	for i := range out.Len() {
		s.out = append(s.out, scriptPacket{To: scriptAddr{to}, Packet: bytes.Clone(out.At(i))})
	}
	out.Reset()
}

func (s *scriptServer) step(st *scriptStep) {
	now := scriptTime(st.Time)
	s.unix, s.out, s.received = uint64(st.Unix), nil, nil
	for _, p := range st.In {
		s.deliver(now, p.From.AddrPort, bytes.Clone(p.Packet))
	}
	s.update(now)
	if st.App != nil {
		s.app(now, s.sessions[st.App.Slot], st.App.Call, st.App.Data)
	}
}

func (s *scriptServer) deliver(now time.Time, from netip.AddrPort, b []byte) {
	var out wire.Batch
	sess := s.server.sessions[from]
	if sess == nil {
		if sess, _ = s.receive(now, from, b, &out); sess != nil {
			s.sessions[sess.index] = sess
		}
		s.collect(from, &out)
		return
	}
	p, reason := sess.receive(now, b)
	switch {
	case reason != dropNone:
		return
	case p.typ == packetDisconnect:
		s.drop(sess)
		return
	case p.typ == packetPayload:
		s.received = append(s.received, scriptPayload{sess.index, num(p.seq), bytes.Clone(p.body)})
	}
	sess.confirmed = true
}

func (s *scriptServer) drop(sess *session) {
	s.remove(sess)
	s.sessions[sess.index] = nil
}

func (s *scriptServer) update(now time.Time) {
	var out wire.Batch
	for _, sess := range s.sessions {
		if sess == nil {
			continue
		}
		sess.keepAlive(now, &out)
		s.collect(sess.addr, &out)
		if sess.timedOut(now) {
			s.drop(sess)
		}
	}
}

func (s *scriptServer) app(now time.Time, sess *session, call string, data []byte) {
	var out wire.Batch
	switch call {
	case "send":
		sess.sendPayload(now, data, &out)
	case "disconnect":
		sess.send.disconnect(now, &out)
		s.drop(sess)
	default:
		panic("unknown call " + call)
	}
	s.collect(sess.addr, &out)
}

func (s *scriptServer) check(t *testing.T, st *scriptStep) {
	t.Helper()
	checkOut(t, s.out, st.Out)
	checkReceived(t, s.received, st.Received)
	var slots []scriptSlot
	for i, sess := range s.sessions {
		if sess != nil {
			slots = append(slots, scriptSlot{uint32(i), num(sess.id), scriptAddr{sess.addr}, sess.confirmed})
		}
	}
	if !slices.Equal(slots, st.Slots) {
		t.Errorf("slots = %+v, want %+v", slots, st.Slots)
	}
}

type serverScript struct {
	Name          string
	ServerAddress scriptAddr `json:"server_address"`
	MaxClients    int        `json:"max_clients"`
	StartTime     float64    `json:"start_time"`
	StartUnix     num        `json:"start_unix"`
	ProtocolID    num        `json:"protocol_id"`
	PrivateKey    hexBytes   `json:"private_key"`
	ChallengeKey  hexBytes   `json:"challenge_key"`
	Steps         []scriptStep
	Standard      string `json:"standard_1_4_5"`
}

func testServerScenarios(t *testing.T, data []byte) {
	for _, c := range decodeCases[serverScript](t, data) {
		for _, lifetime := range []time.Duration{0, defaultTokenLifetime} {
			t.Run(fmt.Sprintf("%s/lifetime %v", c.Name, lifetime), func(t *testing.T) {
				s := newScriptServer(t, &c, lifetime)
				for _, st := range c.Steps {
					t.Logf("# %v %s", st.Time, st.Note)
					s.step(&st)
					s.check(t, &st)
				}
			})
		}
	}
}

type clientScript struct {
	Name              string
	ConnectTime       float64  `json:"connect_time"`
	ConnectToken      hexBytes `json:"connect_token"`
	StateAfterConnect state    `json:"state_after_connect"`
	Steps             []scriptStep
}

// A scriptClient drives a client core as a script tells.
type scriptClient struct {
	*client
	out      []scriptPacket
	received []scriptPayload
}

func newScriptClient(c *clientScript) *scriptClient {
	s := &scriptClient{client: newClient(clientConfig{interval: sendInterval, window: referenceWindow, paced: true, fromZero: true})}
	tok, err := parseToken(c.ConnectToken)
	if err != nil {
		s.state = stateInvalidToken
		return s
	}
	s.connect(scriptTime(c.ConnectTime), tok)
	return s
}

func (s *scriptClient) step(st *scriptStep) {
	now := scriptTime(st.Time)
	s.out, s.received = nil, nil
	for _, p := range st.In {
		if payload := s.receive(now, p.From.AddrPort, bytes.Clone(p.Packet)); payload != nil {
			s.received = append(s.received, scriptPayload{Sequence: num(sequence(p.Packet[1 : 1+p.Packet[0]>>4])), Data: payload})
		}
	}
	var out wire.Batch
	to := s.destination()
	s.advance(now, &out)
	s.collect(to, &out)
	if st.App == nil {
		return
	}
	to = s.destination()
	switch st.App.Call {
	case "send":
		s.sendPayload(now, st.App.Data, &out)
	case "disconnect":
		s.disconnect(now, &out)
	default:
		panic("unknown call " + st.App.Call)
	}
	s.collect(to, &out)
}

func (s *scriptClient) destination() netip.AddrPort {
	if s.token == nil {
		return netip.AddrPort{}
	}
	return s.serverAddr()
}

func (s *scriptClient) collect(to netip.AddrPort, out *wire.Batch) {
	for i := range out.Len() {
		s.out = append(s.out, scriptPacket{To: scriptAddr{to}, Packet: bytes.Clone(out.At(i))})
	}
	out.Reset()
}

func testClientScenarios(t *testing.T, data []byte) {
	for _, c := range decodeCases[clientScript](t, data) {
		t.Run(c.Name, func(t *testing.T) {
			s := newScriptClient(&c)
			if s.state != c.StateAfterConnect {
				t.Fatalf("state after connect = %v, want %v", s.state, c.StateAfterConnect)
			}
			for _, st := range c.Steps {
				t.Logf("# %v %s", st.Time, st.Note)
				s.step(&st)
				checkOut(t, s.out, st.Out)
				checkReceived(t, s.received, st.Received)
				if s.state != st.State {
					t.Errorf("state = %v, want %v", s.state, st.State)
				}
				if st.Index != nil && (s.slot != *st.Index || s.slots != st.MaxClients) {
					t.Errorf("index, clients = %d, %d, want %d, %d", s.slot, s.slots, *st.Index, st.MaxClients)
				}
			}
		})
	}
}

// lifecycleTail returns how many of the last steps of a lifecycle script show
// the reuse of the token, and so differ from the recorded behaviour of the
// reference where that is the published vulnerability.
func lifecycleTail(steps []scriptStep) int {
	first := steps[0].In[0].Packet
	for i := 1; i < len(steps); i++ {
		if len(steps[i].In) > 0 && bytes.Equal(steps[i].In[0].Packet, first) {
			return len(steps) - i
		}
	}
	return 1
}

func testTokenLifecycle(t *testing.T, data []byte) {
	type restartCase struct {
		Start    num `json:"server_start_unix"`
		Lifetime int `json:"max_connect_token_lifetime"`
		Now      num
		Expires  num `json:"token_expire_timestamp"`
		Accept   bool
	}
	type file struct {
		Cases   []serverScript
		Restart []restartCase `json:"restart_rule"`
	}
	f := decode(t, data, func(f *file) int { return len(f.Cases) * len(f.Restart) })
	for _, c := range f.Cases {
		t.Run(c.Name, func(t *testing.T) { testLifecycle(t, &c) })
	}
	for i, c := range f.Restart {
		srv := newServer(time.Unix(int64(c.Start), 0), serverConfig{
			privateKey: Key{1},
			lifetime:   time.Duration(c.Lifetime) * time.Second,
		})
		b := make([]byte, requestSize)
		putRequest(b, &Token{expires: uint64(c.Expires)})
		got := srv.requests.read(b, uint64(c.Now), &srv.req)
		want := dropTokenTooOld
		if c.Accept {
			want = dropTokenDecrypt // it gets as far as the decryption
		}
		if got != want {
			t.Errorf("restart rule, case %d: %v, want %v", i, got, want)
		}
	}
}

func testLifecycle(t *testing.T, c *serverScript) {
	s := newScriptServer(t, c, defaultTokenLifetime)
	tail := len(c.Steps) - lifecycleTail(c.Steps)
	for i, st := range c.Steps {
		t.Logf("# %v %s", st.Time, st.Note)
		s.step(&st)
		if i < tail || c.Standard == "challenge" {
			s.check(t, &st)
			continue
		}
		if c.Standard != "ignored" {
			t.Fatalf("unknown verdict %q", c.Standard)
		}
		if len(s.out) != 0 || len(s.received) != 0 || slices.ContainsFunc(s.sessions, func(sess *session) bool { return sess != nil }) {
			t.Errorf("sent %v, received %v, want silence and no session", s.out, s.received)
		}
	}
}
