package volley_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"time"

	"volley"
	"volley/capture"
	"volley/simnet"
)

func Example() {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	c, err := volley.Dial("udp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	server, err := ln.AcceptConn(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	c.Write([]byte("a message"))
	server.SetReadDeadline(time.Now().Add(30 * time.Second))
	msg, err := server.ReadMessage(context.Background(), nil)
	fmt.Printf("%s, %v\n", msg, err)
	// Output: a message, <nil>
}

// A server that is to stop answers what it has begun, for half a minute at most.
func ExampleListener_Shutdown() {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	client, err := volley.Dial("udp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	server, err := ln.AcceptConn(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	go func() { // until the client says that it is done
		defer server.Close()
		for {
			msg, err := server.ReadMessage(context.Background(), nil)
			if err != nil || string(msg) == "done" {
				return
			}
		}
	}()

	for range 5 { // a message may be lost
		client.Write([]byte("done"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fmt.Println(ln.Shutdown(ctx))
	_, err = ln.Accept()
	fmt.Println(errors.Is(err, net.ErrClosed))
	// Output:
	// <nil>
	// true
}

// A Pipe stands in for a connection in tests.
func ExamplePipe() {
	client, server := volley.Pipe(nil)
	go func() {
		client.Write([]byte("first"))
		client.Write([]byte("second"))
		client.Close()
	}()
	for {
		msg, err := server.ReadMessage(context.Background(), nil)
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(string(msg))
	}
	// Output:
	// first
	// second
	// EOF
}

// Over sockets of package simnet, a program shows what it does on a bad network.
// The seed makes it the same each time.
func ExampleNewConn_lossy() {
	x, y := simnet.Pair(2, simnet.Link{Loss: 0.5}, simnet.Link{})
	client, _ := volley.NewConn(x, nil)
	server, _ := volley.NewConn(y, nil)
	defer client.Close()
	defer server.Close()
	for i := range 6 {
		client.Write(fmt.Append(nil, "message ", i))
	}
	server.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	got := 0
	for {
		if _, err := server.ReadMessage(context.Background(), nil); err != nil {
			break
		}
		got++
	}
	fmt.Println("some were lost:", got < 6)
	// Output: some were lost: true
}

// A server tells everybody something.
func ExampleListener_Conns() {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	var clients []*volley.Conn
	for range 3 {
		client, err := volley.Dial("udp", ln.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		clients = append(clients, client)
		if _, err := ln.Accept(); err != nil {
			log.Fatal(err)
		}
	}

	for c := range ln.Conns() {
		c.Write([]byte("the round begins"))
	}
	for _, c := range clients {
		msg, _ := c.ReadMessage(context.Background(), nil)
		fmt.Printf("%s\n", msg)
	}
	for c := range ln.Conns() {
		c.Close()
	}
	// Output:
	// the round begins
	// the round begins
	// the round begins
}

// The newest position wins: what was written before the newest message that has
// been read is dropped.
func ExampleConn_ReadMessageID() {
	reorders := simnet.Link{Latency: 10 * time.Millisecond, Reorder: 0.3, ReorderBy: 5 * time.Millisecond}
	x, y := simnet.Pair(1, reorders, simnet.Link{})
	client, _ := volley.NewConn(x, nil)
	server, _ := volley.NewConn(y, nil)
	defer client.Close()
	defer server.Close()
	go func() {
		for i := range 10 {
			client.Write(fmt.Append(nil, "position ", i))
			time.Sleep(time.Millisecond)
		}
	}()

	var newest uint64
	var position string
	buf := make([]byte, 0, server.MaxMessageSize())
	for range 10 { // this link loses nothing
		msg, id, err := server.ReadMessageID(context.Background(), buf[:0])
		if err != nil {
			log.Fatal(err)
		}
		if id >= newest {
			newest, position = id, string(msg)
		}
	}
	fmt.Println(position)
	// Output: position 9
}

func ExampleConn_AppendReceipts() {
	client, server := volley.Pipe(nil)
	defer client.Close()
	defer server.Close()
	id, _ := client.WriteMessage([]byte("did you get this?"))
	server.ReadMessage(context.Background(), nil)
	server.Write([]byte("yes")) // carries the acknowledgement
	client.ReadMessage(context.Background(), nil)
	for _, r := range client.AppendReceipts(nil) {
		fmt.Println(r.ID == id, r.Fate)
	}
	// Output: true Delivered
}

// What is lost is written again, until all of it has arrived.
func ExampleConn_WaitReceipts() {
	x, y := simnet.Pair(1, simnet.Link{Loss: 0.3}, simnet.Link{Loss: 0.3})
	client, _ := volley.NewConn(x, nil)
	server, _ := volley.NewConn(y, nil)
	defer client.Close()
	defer server.Close()
	go func() {
		for {
			if _, err := server.ReadMessage(context.Background(), nil); err != nil {
				return // one may come twice, if a receipt said Lost in error
			}
		}
	}()

	open := make(map[uint64][]byte) // written, and no receipt yet
	send := func(msg []byte) {
		if id, err := client.WriteMessage(msg); err == nil {
			open[id] = msg
		}
	}
	for i := range 20 {
		send(fmt.Append(nil, "reading ", i))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for len(open) > 0 {
		receipts, err := client.WaitReceipts(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range receipts {
			msg := open[r.ID]
			delete(open, r.ID)
			if r.Fate == volley.Lost {
				send(msg)
			}
		}
	}
	fmt.Println("all have arrived")
	// Output: all have arrived
}

func ExampleConn_Stats() {
	client, server := volley.Pipe(nil)
	defer client.Close()
	defer server.Close()
	for range 10 {
		client.Write(make([]byte, 3000))
		server.ReadMessage(context.Background(), nil)
	}
	s := client.Stats()
	fmt.Println(s.MessagesSent, "messages in", s.FragmentsSent, "datagrams")
	fmt.Printf("%.1f %% lost\n", 100*s.Loss)
	// Output:
	// 10 messages in 30 datagrams
	// 0.0 % lost
}

func ExampleConn_WriteBatch() {
	client, server := volley.Pipe(nil)
	defer client.Close()
	defer server.Close()
	msgs := [][]byte{[]byte("position"), []byte("velocity"), []byte("health")}
	ids := make([]uint64, len(msgs))
	n, err := client.WriteBatch(ids, msgs)
	fmt.Println(n, err)
	for i := range n {
		msg, id, _ := server.ReadMessageID(context.Background(), nil)
		fmt.Println(string(msg), id == ids[i])
	}
	// Output:
	// 3 <nil>
	// position true
	// velocity true
	// health true
}

// WriteAll serves all clients of a server in one pass over its socket, and says
// for whom there was an error.
func ExampleWriteAll() {
	n := simnet.New(1)
	defer n.Close()
	pc, _ := n.Listen("10.0.0.1:7777")
	var lc volley.ListenConfig
	ln, _ := lc.ListenOn(pc)
	defer ln.Close()

	var clients, players []*volley.Conn
	for range 3 {
		inner, _ := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
		c, _ := volley.NewConn(inner, nil)
		defer c.Close()
		c.Write([]byte("join"))
		p, _ := ln.AcceptConn(context.Background())
		defer p.Close()
		clients, players = append(clients, c), append(players, p)
	}
	players[1].Close() // has left

	err := volley.WriteAll([]byte("round 1 begins"), slices.Values(players))
	if all, ok := errors.AsType[*volley.WriteAllError](err); ok {
		fmt.Println("player left:", all.Failed[players[1]] != nil)
		players = slices.DeleteFunc(players, func(c *volley.Conn) bool { return all.Failed[c] != nil })
	}
	fmt.Println(len(players), "players")
	msg, _ := clients[2].ReadMessage(context.Background(), nil)
	fmt.Println(string(msg))
	// Output:
	// player left: true
	// 2 players
	// round 1 begins
}

// A Dialer serves where a dial function is asked for by a program that
// writes a message at a time, such as a resolver: not by net/http, whose
// connections are streams.
func ExampleDialer_Dial() {
	d := volley.Dialer{
		Config:    &volley.Config{IdleTimeout: time.Minute},
		NetDialer: net.Dialer{Timeout: 5 * time.Second},
	}
	_ = net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		return d.Dial(ctx, network, address) // its server speaks volley, too
	}}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := d.Dial(ctx, "udp", "127.0.0.1:9")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.RemoteAddr())
	// Output: 127.0.0.1:9
}

// One socket answers everybody.
func ExampleListenPacket() {
	server, err := volley.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := volley.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	client.WriteTo(make([]byte, 5000), server.LocalAddr()) // five datagrams
	buf := make([]byte, server.MaxMessageSize())
	server.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, from, err := server.ReadFrom(buf)
	fmt.Println(n, err, from.String() == client.LocalAddr().String())
	stats, known := server.PeerStats(from)
	fmt.Println(stats.MessagesReceived, known)
	// Output:
	// 5000 <nil> true
	// 1 true
}

// NewConn puts messages on any connection that preserves message boundaries.
func ExampleNewConn() {
	n := simnet.New(1)
	defer n.Close()
	a, _ := n.Dial("10.0.0.1:1000", "10.0.0.2:2000")
	b, _ := n.Dial("10.0.0.2:2000", "10.0.0.1:1000")
	x, _ := volley.NewConn(a, nil)
	y, _ := volley.NewConn(b, nil)
	defer x.Close()
	defer y.Close()

	x.Write(make([]byte, 10000)) // ten datagrams below
	msg, err := y.ReadMessage(context.Background(), nil)
	fmt.Println(len(msg), err)
	// Output: 10000 <nil>
}

func ExampleListenConfig_ListenPacket() {
	n := simnet.New(1)
	defer n.Close()
	pc, err := n.Listen("10.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	lc := volley.ListenConfig{MaxConns: 100, MaxMemory: 64 << 20}
	ln, err := lc.ListenOn(pc)
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	fmt.Println(ln.Addr())
	// Output: 10.0.0.1:7777
}

// A program that wants to know why a connection is slow asks it.
func ExampleConn_Explain() {
	a, b := volley.Pipe(nil)
	defer a.Close()
	defer b.Close()
	fmt.Println(a.Explain())
	for range 50 {
		a.Write([]byte("tick"))
		b.Read(make([]byte, 10))
	}
	for _, f := range a.Explain().Findings {
		if f.Kind == "one way" {
			fmt.Println("All", f.Count, "messages go one way.")
		}
	}
	// Output:
	// Nothing is wrong.
	// All 50 messages go one way.
}

// A capture of a connection is replayed into a fresh protocol core.
func ExampleReplay() {
	recorder, err := capture.NewRecorder(nil)
	if err != nil {
		panic(err)
	}
	a, b := volley.Pipe(&volley.Config{Capture: recorder})
	a.Write([]byte("hello"))
	b.ReadMessage(context.Background(), nil)
	a.Close()
	b.Close()

	var file bytes.Buffer // in a program, a file
	recorder.WriteTo(&file)
	report, err := volley.Replay(&file)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(report.Connections), "connections, the same:", report.Same())
	// Output: 2 connections, the same: true
}

// A client learns by its next message that the server was started again, and
// dials anew.
func ExampleConfig_restartNotice() {
	cfg := &volley.Config{}
	network := simnet.New(1) // where the port is nobody else's
	defer network.Close()
	listen := func() *volley.Listener {
		pc, err := network.Listen("10.0.0.1:7777")
		check(err)
		lc := volley.ListenConfig{Config: cfg}
		ln, err := lc.ListenOn(pc)
		check(err)
		return ln
	}
	dial := func() *volley.Conn {
		inner, err := network.Dial("10.0.0.2:5000", "10.0.0.1:7777")
		check(err)
		c, err := volley.NewConn(inner, cfg)
		check(err)
		return c
	}
	ln, c := listen(), dial()
	// The server knows a client by its first message.
	_, err := c.Write([]byte("hello"))
	check(err)
	peer, err := ln.Accept()
	check(err)
	buf := make([]byte, 100)
	_, err = peer.Read(buf)
	check(err)
	peer.Write([]byte("welcome"))
	n, err := c.Read(buf)
	check(err)
	fmt.Printf("%s\n", buf[:n])

	// The server is killed, so that its goodbye does not get out, and starts again on
	// its port once that is free.
	network.SetDefault(simnet.Link{Loss: 1})
	peer.Close()
	check(ln.Shutdown(context.Background()))
	network.SetDefault(simnet.Link{})
	ln = listen()
	defer ln.Close()

	c.Write([]byte("hello"))
	_, err = c.Read(buf)
	fmt.Println(errors.Is(err, volley.ErrPeerRestarted))
	c.Close()
	c = dial()
	defer c.Close()
	_, err = c.Write([]byte("hello again"))
	check(err)
	peer, err = ln.Accept()
	check(err)
	defer peer.Close()
	fmt.Println("there is a new connection")
	// Output:
	// welcome
	// true
	// there is a new connection
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A server that has no goroutine for a connection: messages are handled on the
// goroutine that reads the socket, and the answers leave together.
func ExampleListener_Serve() {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	type player struct{ shots int }
	done := make(chan error)
	go func() {
		done <- ln.Serve(volley.Handler{
			Open: func(c *volley.Conn) { c.SetValue(new(player)) },
			Message: func(c *volley.Conn, msg []byte) {
				p := c.Value().(*player)
				p.shots++
				fmt.Fprintf(c, "%s %d", msg, p.shots)
			},
		})
	}()

	c, err := volley.Dial("udp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, c.MaxMessageSize())
	c.SetDeadline(time.Now().Add(30 * time.Second))
	for range 2 {
		c.Write([]byte("shot"))
		n, err := c.Read(buf)
		fmt.Println(string(buf[:n]), err)
	}
	c.Close()
	ln.Close()
	fmt.Println(errors.Is(<-done, net.ErrClosed))
	// Output:
	// shot 1 <nil>
	// shot 2 <nil>
	// true
}

// A server that ticks: what has arrived is handled at each tick, and nobody is
// woken in between.
func ExampleListener_Poll() {
	ln, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	c, err := volley.Dial("udp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("left"))

	input := ""
	h := volley.Handler{Message: func(_ *volley.Conn, msg []byte) { input = string(msg) }}
	tick := time.NewTicker(time.Second / 30)
	defer tick.Stop()
	for input == "" {
		<-tick.C
		if err := ln.Poll(h); err != nil {
			log.Fatal(err)
		}
		volley.WriteAll([]byte("the state of the world"), ln.Conns())
	}
	fmt.Println(input)
	ln.Close()
	for conn := range ln.Conns() {
		conn.Close()
	}
	for err == nil { // the goodbyes
		<-tick.C
		err = ln.Poll(h)
	}
	fmt.Println(errors.Is(err, net.ErrClosed))
	// Output:
	// left
	// true
}

// simulated returns a Listener at 10.0.0.1:7777 of a simulated network, and a function
// that dials it, in the place of volley.Listen and volley.Dial.
func simulated(lc *volley.ListenConfig) (ln *volley.Listener, dial func(from string) *volley.Conn, end func()) {
	network := simnet.New(1)
	pc, err := network.Listen("10.0.0.1:7777")
	check(err)
	ln, err = lc.ListenOn(pc)
	check(err)
	dial = func(from string) *volley.Conn {
		pc, err := network.Listen(from)
		check(err)
		c, err := new(volley.Dialer).DialOn(context.Background(), pc, ln.Addr())
		check(err)
		return c
	}
	return ln, dial, func() { network.Close() }
}

// A server kicks a client that does not keep to the rules, and stops. Its clients
// learn at once which it was.
func ExampleConn_CloseWithReason() {
	ln, dial, end := simulated(&volley.ListenConfig{})
	defer end()
	cheat, fair := dial("10.0.0.2:5000"), dial("10.0.0.3:5000")
	defer cheat.Close()
	defer fair.Close()
	cheat.Write([]byte("teleport"))
	fair.Write([]byte("walk"))
	buf := make([]byte, 100)
	for range 2 {
		peer, err := ln.AcceptConn(context.Background())
		check(err)
		n, err := peer.Read(buf)
		check(err)
		if string(buf[:n]) == "teleport" {
			peer.CloseWithReason("kicked")
		}
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	ln.Shutdown(stopped) // at once

	_, err := cheat.Read(buf)
	var ce *volley.CloseError
	if errors.As(err, &ce) {
		fmt.Println("closed by the server:", ce.Reason)
	}
	_, err = fair.Read(buf)
	fmt.Println(err == io.EOF)
	// Output:
	// closed by the server: kicked
	// true
}

// A client is told that the server is full.
func ExampleRefusedError() {
	_, dial, end := simulated(&volley.ListenConfig{MaxConns: 1})
	defer end()
	for i := range 2 {
		c := dial(fmt.Sprintf("10.0.0.%d:5000", 2+i))
		defer c.Close()
		if i == 0 {
			continue // it is in
		}
		_, err := c.Read(make([]byte, 100))
		var re *volley.RefusedError
		if errors.As(err, &re) {
			fmt.Println("refused:", re.Reason)
		}
	}
	// Output: refused: full
}
