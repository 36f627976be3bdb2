//go:build unix

package webgate

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"
	"github.com/stretchr/testify/require"

	"volley"
)

// maxCPU is how much more processor time than a bare echo a message may take.
const maxCPU = 1.3

var full = flag.Bool("full", false, "measure processor time, on a quiet machine")

// roleVariable has the test binary be a server of the benchmark.
const roleVariable = "WEBGATE_ROLE"

func init() {
	if role := os.Getenv(roleVariable); role != "" {
		log.SetOutput(io.Discard)
		roles[role]()
		cpuReports()
		os.Exit(0)
	}
}

// roles print the address that they serve.
var roles = map[string]func(){
	"bare": func() {
		mux := http.NewServeMux()
		s := &webtransport.Server{H3: &http3.Server{Handler: mux, TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{devCert()}})}}
		mux.HandleFunc("/join", func(w http.ResponseWriter, r *http.Request) {
			session, err := s.Upgrade(w, r)
			if err != nil {
				panic(err)
			}
			go func() {
				for {
					b, err := session.ReceiveDatagram(context.Background())
					if err != nil {
						return
					}
					session.SendDatagram(b)
				}
			}()
		})
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			panic(err)
		}
		go s.Serve(c)
		fmt.Println(c.LocalAddr())
	},
	"gate": func() {
		g, err := Listen("127.0.0.1:0", &Config{Certificate: devCert()})
		if err != nil {
			panic(err)
		}
		ln, err := volley.NewListener(g, nil)
		if err != nil {
			panic(err)
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					panic(err)
				}
				go echo(c)
			}
		}()
		fmt.Println(g.Addr())
	},
}

// cpuReports prints the processor time of the process in microseconds for each line of
// its input.
func cpuReports() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		fmt.Println((u.Utime.Nano() + u.Stime.Nano()) / 1000)
	}
}

// A role is a server in a process of its own, with clients.
type role struct {
	in    io.Writer
	out   *bufio.Reader
	conns []net.Conn
	got   chan struct{} // a token for each echo

	before time.Duration // processor time when play began
}

func startRole(t testing.TB, name string, sessions int) *role {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	r := &role{in: in, out: bufio.NewReader(out), got: make(chan struct{}, 1<<16)}
	var text string
	_, err = fmt.Fscanln(r.out, &text)
	require.NoError(t, err)
	g := &Gate{addr: addr{overWebTransport, text}}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		for _, c := range r.conns {
			c.Close()
		}
		in.Close()
		cmd.Wait()
		wg.Wait()
	})
	for range sessions {
		c := dialTransport(t, g, "/join")
		if name == "gate" {
			c, err = volley.NewConn(c, nil)
			require.NoError(t, err)
		}
		r.conns = append(r.conns, c)
		wg.Go(func() {
			buf := make([]byte, 2000)
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
				r.got <- struct{}{}
			}
		})
	}
	return r
}

// cpu returns the processor time that the server has used.
func (r *role) cpu(t testing.TB) (d time.Duration) {
	fmt.Fprintln(r.in)
	var us int64
	_, err := fmt.Fscanln(r.out, &us)
	require.NoError(t, err)
	return time.Duration(us) * time.Microsecond
}

// play has the clients of all servers send at a rate for some time, in turns, and returns
// how much processor time an echoed message took each server.
func play(t testing.TB, rate int, d time.Duration, roles ...*role) (each []time.Duration) {
	for _, r := range roles {
		r.before = r.cpu(t)
	}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	m := make([]byte, 200)
	for start := time.Now(); time.Since(start) < d; <-tick.C {
		for i := range roles[0].conns {
			for _, r := range roles {
				r.conns[i].Write(m)
			}
		}
	}
	time.Sleep(200 * time.Millisecond) // for the last echoes
	for _, r := range roles {
		used, n := r.cpu(t)-r.before, len(r.got)
		for range n {
			<-r.got
		}
		require.Greater(t, n, len(r.conns)*rate*int(d/time.Second)/4)
		each = append(each, used/time.Duration(n))
	}
	return each
}

// TestCPU compares the processor time of the server for a message with that of a bare
// echo over webtransport-go. Both run at the same time, so that they meet the same load.
func TestCPU(t *testing.T) {
	if !*full {
		t.Skip("needs -full, and a quiet machine")
	}
	const sessions, rate, rounds = 50, 60, 7
	bare, gate := startRole(t, "bare", sessions), startRole(t, "gate", sessions)
	play(t, rate, time.Second, bare, gate)
	var ratios []float64
	for range rounds {
		each := play(t, rate, 2*time.Second, bare, gate)
		ratios = append(ratios, float64(each[1])/float64(each[0]))
		t.Logf("bare %v a message, gate %v: %.2f", each[0], each[1], ratios[len(ratios)-1])
	}
	slices.Sort(ratios)
	require.LessOrEqual(t, ratios[rounds/2], maxCPU)
}
