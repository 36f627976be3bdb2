package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"volley"
	"volley/bench/internal/child"
	"volley/bench/internal/cputime"
	"volley/exporters/volleyprom"
	"volley/volleydebug"
)

// loadEnv tells a process that it is the server, and of which load.
const loadEnv = "VOLLEY_BENCH_WATCHED"

// A greeting is what the server says first.
type greeting struct{ Addr, Web string }

// A mark is what the server has done and used so far.
type mark struct {
	Messages, Mallocs uint64
	CPU               time.Duration
	At                time.Time
}

// serve answers messages until in ends. For each line of in it writes a mark.
func serve(load string, in io.Reader, out io.Writer) error {
	l, err := volley.Listen("udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(volleyprom.NewCollector())
	http.Handle("/volley/", volleydebug.Handler())
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go http.Serve(web, nil)
	var messages atomic.Uint64
	go func() {
		for {
			c, err := l.AcceptConn(context.Background())
			if err != nil {
				return
			}
			go answer(c, load, &messages)
		}
	}()
	hello := greeting{l.Addr().String(), web.Addr().String()}
	err = child.Serve(in, out, hello, func() any {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return mark{messages.Load(), m.Mallocs, cputime.Process(), time.Now()}
	})
	return errors.Join(err, l.Close())
}

// answer answers all messages, or of a flood one of many, by its number.
func answer(c *volley.Conn, load string, messages *atomic.Uint64) {
	defer c.Close()
	buf := make([]byte, 2048)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		messages.Add(1)
		if load == loadFlood {
			n = 8
			if binary.LittleEndian.Uint64(buf)%floodAnswers != 0 {
				continue
			}
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A process is a server, as the process sees it that has started it.
type process struct {
	*child.Server
	greeting
}

func start(load string) (*process, error) {
	p := new(process)
	var err error
	p.Server, err = child.Start(loadEnv+"="+load, &p.greeting)
	return p, err
}

// mark asks the server what it has done so far.
func (p *process) mark() (m mark, err error) {
	err = p.Mark(&m)
	return m, err
}
