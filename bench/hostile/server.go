package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"

	"volley"
	"volley/bench/internal/child"
	"volley/bench/internal/cputime"
	"volley/netcode"
)

// serverEnv tells a process that it is a server, and which.
const serverEnv = "VOLLEY_BENCH_HOSTILE"

// profileEnv names a file for a profile of the server's processor time.
const profileEnv = "VOLLEY_BENCH_PROFILE"

const (
	serverUDP     = "udp"
	serverVolley  = "volley"
	serverSilent  = "volley-accepted"
	serverNetcode = "netcode"

	serverMessage = 200 // bytes of a session's message
	backlog       = 1 << 20
)

func serverNames() []string { return []string{serverUDP, serverVolley, serverSilent, serverNetcode} }

// key is shared by both ends of sessions.
var key = netcode.Key{1}

// A mark is what the server has done and used so far.
type mark struct {
	Opened uint64 // datagrams of strangers that the server has dealt with
	Conns  uint64 // connections that it has made
	Held   int64  // bytes of messages and fragments
	CPU    time.Duration
	At     time.Time
}

// serve answers messages until in ends. For each line of in it writes a mark.
func serve(name string, in io.Reader, out io.Writer) error {
	if path := os.Getenv(profileEnv); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	listen := map[string]func() (net.Addr, func(*mark), error){
		serverUDP: listenUDP, serverVolley: listenVolley, serverSilent: listenSilent, serverNetcode: listenNetcode,
	}[name]
	if listen == nil {
		return fmt.Errorf("no server %q, want one of %q", name, serverNames())
	}
	addr, count, err := listen()
	if err != nil {
		return err
	}
	return child.Serve(in, out, addr.String(), func() any {
		m := mark{CPU: cputime.Process(), At: time.Now()}
		count(&m)
		return m
	})
}

// listenUDP answers each datagram, whoever sends it.
func listenUDP() (net.Addr, func(*mark), error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, err
	}
	if err := c.SetReadBuffer(4 << 20); err != nil {
		return nil, nil, err
	}
	var opened atomic.Uint64
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				continue
			}
			if n != serverMessage {
				opened.Add(1)
			}
			if n != unread && n != stallMessage {
				_, _ = c.WriteToUDPAddrPort(buf[:n], from)
			}
		}
	}()
	return c.LocalAddr(), func(m *mark) { m.Opened = opened.Load() }, nil
}

func listenVolley() (net.Addr, func(*mark), error) { return listenConns(true) }

// listenSilent accepts strangers, and has nothing to say to them.
func listenSilent() (net.Addr, func(*mark), error) { return listenConns(false) }

func listenConns(answers bool) (net.Addr, func(*mark), error) {
	lc := volley.ListenConfig{Backlog: backlog, MaxMemory: 4 << 30, Config: &volley.Config{ReadBuffer: readBuffer}}
	l, err := lc.Listen(context.Background(), "udp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	go func() {
		for {
			c, err := l.AcceptConn(context.Background())
			if err != nil {
				return
			}
			if answers || isSession(c.RemoteAddr()) {
				go answer(c)
			}
		}
	}()
	return l.Addr(), func(m *mark) {
		s := l.Stats()
		m.Conns = s.Accepted
		m.Opened = s.Accepted + s.Unknown
		m.Held = s.Memory
	}, nil
}

// isSession tells addresses of sessions from those of the flood.
func isSession(a net.Addr) bool { return a.(*net.UDPAddr).IP.Equal(net.IPv4(127, 0, 0, 1)) }

// listenNetcode has sessions with connect tokens.
func listenNetcode() (net.Addr, func(*mark), error) {
	lc := netcode.ListenConfig{PrivateKey: key, MaxClients: 1 << 16}
	ln, err := lc.Listen(context.Background(), "udp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	l, err := volley.NewListener(ln, &volley.Config{ReadBuffer: readBuffer})
	if err != nil {
		return nil, nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return l.Addr(), func(m *mark) { m.Opened, m.Held = ln.Stats().Requests, l.Stats().Memory }, nil
}

// answer answers all messages except those of readers, which it does not read after a stall.
func answer(c net.Conn) {
	buf := make([]byte, 2048)
	for {
		n, err := c.Read(buf)
		switch {
		case err != nil || n == unread:
		case n == stallMessage:
			return
		default:
			_, err = c.Write(buf[:n])
		}
		if err != nil {
			c.Close()
			return
		}
	}
}

// A process is a server, as the process sees it that has started it.
type process struct {
	*child.Server
	addr string
}

func start(name string) (*process, error) {
	if !slices.Contains(serverNames(), name) {
		return nil, fmt.Errorf("no server %q, want one of %q", name, serverNames())
	}
	p := new(process)
	var err error
	p.Server, err = child.Start(serverEnv+"="+name, &p.addr)
	return p, err
}

// mark asks the server what it has done so far.
func (p *process) mark() (m mark, err error) {
	err = p.Mark(&m)
	return m, err
}
