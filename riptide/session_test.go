package riptide

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"volley/simnet"
)

// A recording is what went over a relay between a C# server and its clients.
type recording struct {
	Name      string
	Transport string
	Fault     bool `json:"reference_bug_in_v2_1_0"`
	Log       []*recorded
}

type recorded struct {
	T       float64 `json:"t_ms"`
	Kind    string
	Side    string // of an event
	Name    string
	Data    recordedData
	Client  int
	Dir     string
	Type    string
	Hex     hexBytes
	Deliver []float64 `json:"deliver_ms"`
}

type recordedData struct {
	Clients  int `json:"max_clients"`
	Attempts int
	ID       uint16
	From     uint16
	Mode     string
	Message  uint16 `json:"message_id"`
	Unread   int    `json:"unread_bits"`
	Sequence uint16
	Reason   string
	DataBits int `json:"data_bits"`
}

func testSessions(t *testing.T, v21 bool, data []byte) {
	var file struct{ Sessions []*recording }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Sessions) == 0 {
		t.Fatal("file without sessions")
	}
	for _, r := range file.Sessions {
		t.Run(r.Name, func(t *testing.T) { r.test(t, v21) })
	}
}

// test plays both sides of a recording.
func (r *recording) test(t *testing.T, v21 bool) {
	if !(r.Fault && v21) { // a fault of that server
		t.Run("server", func(t *testing.T) { r.testServer(t, v21) })
	}
	for n := 1; n <= r.clients(); n++ {
		t.Run(fmt.Sprint("client", n), func(t *testing.T) { r.testClient(t, v21, n) })
	}
}

// recordedConfig has the times of the released library.
func recordedConfig(v21 bool) *Config {
	return &Config{Version21: v21, MinResend: 10 * time.Millisecond}
}

// attempts returns how often a client was told to try to connect; 0 if that was not
// recorded.
func (r *recording) attempts(number int) int {
	for _, e := range r.Log {
		if e.Name == "connect_called" && e.Side == fmt.Sprint("client", number) {
			return e.Data.Attempts
		}
	}
	return 0
}

// end returns when the recording ends. Nobody knows what would have followed.
func (r *recording) end() float64 { return r.Log[len(r.Log)-1].T }

// sameMoment is how much later than ours the recorded ones may act, which look at
// their sockets and timers each 2 ms, on a busy machine. What ours do in the last such
// time may not have been recorded.
const sameMoment = 20.0

func (r *recording) clients() (n int) {
	for _, e := range r.Log {
		n = max(n, e.Client)
	}
	return n
}

// sends returns what went in a direction, from or to a client or all (0).
func (r *recording) sends(dir string, client int) (list []*recorded) {
	for _, e := range r.Log {
		if e.Dir == dir && e.Kind != "closed" && (client == 0 || e.Client == client) {
			list = append(list, e)
		}
	}
	return list
}

// A timeline is a list of things to do at times.
type timeline []moment

type moment struct {
	at time.Duration
	do func()
}

func (l *timeline) add(ms float64, do func()) {
	*l = append(*l, moment{time.Duration(ms * float64(time.Millisecond)), do})
}

// run does everything in the order of time, each once all is at rest.
func (l timeline) run() {
	slices.SortStableFunc(l, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	begin := time.Now()
	for _, m := range l {
		time.Sleep(time.Until(begin.Add(m.at)))
		synctest.Wait()
		m.do()
	}
}

// A wiretap is the recorded side's end of a connection with ours.
type wiretap struct {
	conn   net.Conn
	stream bool
	mu     sync.Mutex
	got    []timed // what ours has sent
}

// timed is what ours has sent or been told, and when.
type timed struct {
	what string
	at   time.Time
}

func newWiretap(c net.Conn, stream bool) *wiretap {
	w := &wiretap{conn: c, stream: stream}
	go w.read()
	return w
}

func (w *wiretap) read() {
	buf := make([]byte, 4096)
	for {
		n, err := 0, error(nil)
		if w.stream {
			if _, err = io.ReadFull(w.conn, buf[:4]); err == nil {
				n = int(binary.LittleEndian.Uint32(buf))
				_, err = io.ReadFull(w.conn, buf[:n])
			}
		} else {
			n, err = w.conn.Read(buf)
		}
		if err != nil {
			return
		}
		w.mu.Lock()
		w.got = append(w.got, timed{hex.EncodeToString(buf[:n]), time.Now()})
		w.mu.Unlock()
	}
}

func (w *wiretap) send(b []byte) {
	if w.stream {
		b = append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	w.conn.Write(b)
}

func (w *wiretap) sent() []timed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// A pipeListener accepts what is given to it.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn, 16), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// testServer plays the recorded clients to our server, which is made to do what
// the recorded one did, and compares what it sends and what it is told.
func (r *recording) testServer(t *testing.T, v21 bool) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		s := &Server{Config: recordedConfig(v21)}
		s.MaxClients = r.Log[0].Data.Clients
		r.handleServer(s, &j)
		n := simnet.New(1)
		defer n.Close()
		l := newPipeListener()
		if r.Transport == "tcp" {
			go s.Serve(l)
		} else {
			pc, err := n.Listen(serverAddr)
			if err != nil {
				t.Fatal(err)
			}
			go s.ServeOn(pc)
		}
		taps := make([]*wiretap, r.clients()+1)
		for i := range taps[1:] {
			var c net.Conn
			if r.Transport == "tcp" {
				c, taps[i+1] = nil, new(wiretap)
			} else {
				c, _ = n.Dial(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)}), 9).String(), serverAddr)
				taps[i+1] = newWiretap(c, false)
			}
		}
		begin := time.Now()
		r.serverTimeline(s, taps, l).run()
		s.Close()
		for _, w := range taps[1:] {
			if w.conn != nil {
				w.conn.Close()
			}
		}
		synctest.Wait()
		for i, w := range taps[1:] {
			r.compareTraffic(t, i+1, r.sends("s2c", i+1), w.sent(), serverSide, begin)
		}
		r.compareEvents(t, "server", j.timed(), begin)
	})
}

// handleServer makes the server write what it is told to the journal.
func (r *recording) handleServer(s *Server, j *journal) {
	s.Connected = func(p *Peer) { j.add("client_connected %d", p.ID()) }
	s.Disconnected = func(p *Peer, reason Reason) {
		if reason != ServerStopped { // the recorded server says nothing then
			j.add("client_disconnected %d %v", p.ID(), reason)
		}
	}
	s.Delivered = func(_ *Peer, id uint16) {
		if id > 1 { // that of the welcome comes before its application listens
			j.add("reliable_delivered %d", id)
		}
	}
	s.NotifyFate = func(_ *Peer, id uint16, ok bool) { j.add("%s %d", fateName(ok), id) }
	s.Notify = func(_ *Peer, m *Message) error { j.add("notify_received %d", m.Unread()); return nil }
	s.Unhandled = func(p *Peer, m *Message) error {
		j.add("message %d %v %d %d", p.ID(), m.Mode(), m.ID(), m.Unread())
		return nil
	}
	handled := make(map[uint16]bool)
	for _, e := range r.Log {
		if e.Kind == "event" && e.Side == "server" && e.Name == "message" {
			handled[e.Data.Message] = true
		}
	}
	for _, e := range r.sends("c2s", 0) {
		if m := messageIn(e.Hex); m != nil && m.mode == Unreliable && !handled[m.id] {
			s.Handle(m.id, func(p *Peer, m *Message) error { return s.SendAll(m, p) })
		}
	}
	for _, e := range r.sends("s2c", 0) {
		if e.Type == "connect" {
			s.Accept = r.accept
		}
	}
}

func fateName(delivered bool) string {
	if delivered {
		return "notify_delivered"
	}
	return "notify_lost"
}

// accept decides as the recorded server did on the client with those data.
func (r *recording) accept(_ context.Context, q *Request) error {
	for _, e := range r.sends("c2s", 0) {
		if e.Type != "connect" || !sameBits(e.Hex, q.Data) {
			continue
		}
		for _, a := range r.sends("s2c", e.Client) {
			if a.Type == "reject" && len(a.Hex) > 2 {
				q.Reply = dataFrom(a.Hex[1:])
				return io.EOF
			} else if a.Type == "reject" {
				return io.EOF
			}
		}
		return nil
	}
	return io.EOF
}

// dataFrom returns the data whose body follows the header.
func dataFrom(body []byte) *Message {
	m := new(Message)
	m.load(packed, Unreliable, body)
	m.mode = 0
	return m
}

func sameBits(connect []byte, m *Message) bool {
	d, c := dataFrom(connect), m.Clone()
	for d.Unread() == c.Unread() && d.Unread() > 0 {
		if d.ReadBool() != c.ReadBool() {
			return false
		}
	}
	return d.Unread() == c.Unread()
}

// messageIn returns the message in a datagram; nil if it is none.
func messageIn(b []byte) *Message {
	p, ok := codec{}.parse(clientSide, b)
	if !ok || p.typ != typeUnreliable && p.typ != typeReliable && p.typ != typeNotify {
		return nil
	}
	m := new(Message)
	m.loadUser(packed, modeOf(p.typ), p.body)
	m.pos = 4 // to be sent as it is
	return m
}

// firstSends leaves out what was sent again.
func firstSends(list []*recorded) (first []*recorded) {
	seen := make(map[string]bool)
	for _, e := range list {
		p, ok := codec{}.parse(clientSide, e.Hex)
		if key := fmt.Sprint(e.Client, p.typ, p.seq); ok && p.typ.reliable() {
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		first = append(first, e)
	}
	return first
}

// sendTime returns when a message was sent. The recorded times are those of the
// relay; a notify message tells in what it acknowledges what had not been
// received before.
func (r *recording) sendTime(e *recorded) float64 {
	at := e.T
	p, _ := codec{}.parse(clientSide, e.Hex)
	if p.typ != typeNotify {
		return at
	}
	for _, o := range r.Log {
		q, ok := codec{}.parse(clientSide, o.Hex)
		if ok && q.typ == typeNotify && o.Client == e.Client && o.Dir != e.Dir && gap(q.seq, p.ack.newest) > 0 && len(o.Deliver) > 0 {
			at = min(at, o.Deliver[0]-0.01)
		}
	}
	return at
}

// lastFrame returns when the last came of the frames that a client had sent by a time.
func (r *recording) lastFrame(client int, by float64) (at float64) {
	for _, e := range r.sends("c2s", client) {
		if e.T <= by && len(e.Deliver) > 0 {
			at = max(at, slices.Max(e.Deliver))
		}
	}
	return at
}

// serverTimeline is what happens to a server: datagrams come, and its
// application acts.
func (r *recording) serverTimeline(s *Server, taps []*wiretap, l *pipeListener) (line timeline) {
	stopped := false
	for _, e := range r.sends("c2s", 0) {
		w := taps[e.Client]
		for _, at := range e.Deliver {
			line.add(at, func() {
				if r.Transport == "tcp" && w.conn == nil {
					near, far := net.Pipe()
					l.conns <- far
					*w = wiretap{conn: near, stream: true}
					go w.read()
				}
				w.send(e.Hex)
			})
		}
	}
	for _, e := range r.Log {
		if e.Kind == "closed" && e.Dir == "c2s" {
			line.add(max(e.T, r.lastFrame(e.Client, e.T)), func() {
				if w := taps[e.Client]; w.conn != nil {
					w.conn.Close()
				}
			})
		}
	}
	line.add(r.end()+100, func() {})
	peers, kicked := make(map[int]uint16), make(map[uint16]int)
	for _, e := range r.sends("s2c", 0) {
		if p, _ := (codec{}).parse(serverSide, e.Hex); p.typ == typeWelcome {
			peers[e.Client] = p.client
		}
	}
	for _, e := range firstSends(r.sends("s2c", 0)) {
		m := messageIn(e.Hex)
		switch {
		case m != nil && relays(s, m.id):
		case m != nil:
			line.add(r.sendTime(e), func() { s.Peer(peers[e.Client]).Send(m) })
		case e.Type == "disconnect" && e.Hex[0] == 0x45:
			kicked[peers[e.Client]]++
			line.add(e.T, func() { s.Peer(peers[e.Client]).Kick(dataFrom(e.Hex[1:])) })
		case e.Type == "disconnect" && !stopped:
			stopped = true
			line.add(e.T, func() { s.Close() })
		}
	}
	for _, e := range r.Log {
		if e.Name != "client_disconnected" || e.Data.Reason != "kicked" {
			continue
		}
		if kicked[e.Data.ID]--; kicked[e.Data.ID] < 0 { // the datagram was not recorded any more
			line.add(e.T, func() { s.Peer(e.Data.ID).Kick(nil) })
		}
	}
	return line
}

// testClient plays the recorded server to our client.
func (r *recording) testClient(t *testing.T, v21 bool, number int) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		c := r.newClient(&j, v21)
		c.Config.ConnectAttempts = r.attempts(number)
		n := simnet.New(1)
		defer n.Close()
		var near, far net.Conn
		if r.Transport == "tcp" {
			near, far = net.Pipe()
		} else {
			var err error
			if near, err = n.Dial("10.0.0.1:1", "10.0.0.2:2"); err != nil {
				t.Fatal(err)
			}
			if far, err = n.Dial("10.0.0.2:2", "10.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
		}
		w := newWiretap(far, r.Transport == "tcp")
		begin := time.Now()
		r.clientTimeline(c, number, near, w, &j).run()
		synctest.Wait()
		told := j.timed()
		c.Close()
		w.conn.Close()
		synctest.Wait()
		r.compareTraffic(t, number, r.sends("c2s", number), w.sent(), clientSide, begin)
		r.compareEvents(t, fmt.Sprint("client", number), told, begin)
	})
}

func (r *recording) newClient(j *journal, v21 bool) *Client {
	return &Client{
		Config:             recordedConfig(v21),
		Connected:          func(c *Client) { j.add("connected %d", c.ID()) },
		Disconnected:       func(_ *Client, reason Reason, m *Message) { j.add("disconnected %v %d", reason, unread(m)) },
		ClientConnected:    func(_ *Client, id uint16) { j.add("other_client_connected %d", id) },
		ClientDisconnected: func(_ *Client, id uint16) { j.add("other_client_disconnected %d", id) },
		Delivered:          func(_ *Client, id uint16) { j.add("reliable_delivered %d", id) },
		NotifyFate:         func(_ *Client, id uint16, ok bool) { j.add("%s %d", fateName(ok), id) },
		Notify:             func(_ *Client, m *Message) error { j.add("notify_received %d", m.Unread()); return nil },
		Unhandled: func(_ *Client, m *Message) error {
			j.add("message 0 %v %d %d", m.Mode(), m.ID(), m.Unread())
			return nil
		},
	}
}

func unread(m *Message) int {
	if m == nil {
		return 0
	}
	return m.Unread()
}

// clientTimeline is what happens to a client: its application acts, and
// datagrams come.
func (r *recording) clientTimeline(c *Client, number int, near net.Conn, w *wiretap, j *journal) (line timeline) {
	begun := false
	for _, e := range firstSends(r.sends("c2s", number)) {
		m := messageIn(e.Hex)
		switch {
		case e.Type == "connect" && !begun:
			begun = true
			if len(e.Hex) > 1 {
				c.Data = dataFrom(e.Hex)
			}
			line.add(e.T, func() {
				go func() {
					if err := c.ConnectOn(context.Background(), near); err != nil {
						j.add("connection_failed %s", failure(err))
					}
				}()
			})
		case m != nil:
			line.add(r.sendTime(e), func() { c.Send(m) })
		}
	}
	for _, e := range r.Log {
		if e.Side == fmt.Sprint("client", number) && e.Name == "disconnected" && e.Data.Reason == "disconnected" {
			line.add(e.T, func() { c.Close() })
		}
	}
	line.add(r.end()+100, func() {})
	for _, e := range r.sends("s2c", number) {
		for _, at := range e.Deliver {
			line.add(at, func() { w.send(e.Hex) })
		}
	}
	return line
}

func failure(err error) string {
	e, ok := err.(*DisconnectError)
	if !ok {
		return err.Error()
	}
	names := map[Reason]string{NoAnswer: "NoConnection", ServerFull: "ServerFull", Rejected: "Rejected"}
	if e.Reason == Rejected && e.Data != nil {
		names[Rejected] = "Custom"
	}
	return fmt.Sprint(names[e.Reason], " ", unread(e.Data))
}

// relays reports whether a server relays messages with an id.
func relays(s *Server, id uint16) bool {
	handlers := s.handlers.m.Load()
	return handlers != nil && (*handlers)[id] != nil
}
