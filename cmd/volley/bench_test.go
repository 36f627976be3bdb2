package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// TestBenchTruth: over a link that is known bench finds out how it is, each way.
func TestBenchTruth(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			v := newVirtual(t, simnet.Link{Latency: 50 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.05})
			defer v.close()
			o := v.bench(time.Minute, 2e6, 1000)
			o.reverse = reverse
			var out bytes.Buffer
			require.NoError(t, o.run(t.Context(), virtualServer, &out))
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.InDelta(t, 58, len(lines), 9) // reports get lost, too
			var total, sum benchEvent
			for _, l := range lines {
				var e benchEvent
				require.NoError(t, json.Unmarshal([]byte(l), &e))
				if e.Type == "summary" {
					total = e
					continue
				}
				sum.Bytes += e.Bytes
				sum.Messages += e.Messages
				require.InEpsilon(t, 2e6*0.95, 8*e.Rate, 0.2)
			}
			require.InDelta(t, 15000, *total.Sent, 20)
			require.Equal(t, *total.Sent, total.Expected)
			require.InDelta(t, 0.05, total.Loss, 0.01)
			require.InEpsilon(t, 2e6*0.95, 8*total.Rate, 0.02)
			require.Equal(t, total.Expected, total.Messages+total.Lost)
			require.InDelta(t, float64(sum.Messages), float64(total.Messages), 300) // but for the last part of a second
			require.Equal(t, map[bool]string{false: "forward", true: "reverse"}[reverse], total.Direction)
			require.Empty(t, total.Notes)
			require.NotZero(t, total.OutOfOrder)
			require.InDelta(t, 13.3, total.Jitter, 7) // two thirds of the jitter, smoothed
			// Two delays, each equally likely from 30 to 70 ms.
			for want, got := range map[float64]float64{100: total.RTT.Median, 122.1: total.RTT.P90, 127.4: total.RTT.P95, 134.3: total.RTT.P99} {
				require.InEpsilon(t, want, got, 0.05)
			}
			require.GreaterOrEqual(t, total.RTT.Min, 60.0)
			require.LessOrEqual(t, total.RTT.Max, 140.0)
			require.InEpsilon(t, 100, total.RTT.Mean, 0.05)
		})
	}
}

// TestBenchBottleneck: what is sent too fast is lost, and what passes is the rate
// of the link.
func TestBenchBottleneck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, simnet.Link{Latency: 20 * time.Millisecond, Bandwidth: 4e6})
		defer v.close()
		o := v.bench(20*time.Second, 8e6, 1200)
		var out bytes.Buffer
		require.NoError(t, o.run(t.Context(), virtualServer, &out))
		var total benchEvent
		lastLine(t, out.String(), &total)
		require.InEpsilon(t, 4e6, 8*total.Rate, 0.06)
		require.InDelta(t, 0.5, total.Loss, 0.04)
		queue := 8 * float64(64<<10) / 4e6
		require.InEpsilon(t, 40+1e3*queue, total.RTT.Median, 0.1) // behind a queue that is full
	})
}

// bench returns the options of a bench of a server in virtual time.
func (v *virtual) bench(d time.Duration, rate bitrate, length size) benchOptions {
	o := benchOptions{duration: span(d), interval: span(time.Second), rate: rate, size: length, json: true}
	o.protocol, o.inner = protocolVolley, v.dial
	return o
}

// TestBenchLines: each line begins where the one before ended, and old reports do not count.
func TestBenchLines(t *testing.T) {
	var out bytes.Buffer
	o := (&virtual{}).bench(20*time.Second, 1e6, 1000)
	v := newBenchView(&out, &o)
	for _, second := range []int{1, 2, 4, 3, 3, 5, 8} {
		v.show(benchFigures{Elapsed: time.Duration(second) * time.Second, Received: uint64(10 * second), Expected: uint64(10 * second)})
	}
	v.show(benchFigures{Elapsed: 8*time.Second + 1, Received: 81, Expected: 81, Final: true})
	require.True(t, v.final())
	last, messages := 0.0, uint64(0)
	for l := range strings.Lines(out.String()) {
		var e benchEvent
		require.NoError(t, json.Unmarshal([]byte(l), &e))
		require.Equal(t, last, e.Start)
		require.Less(t, e.Start, e.End)
		last, messages = e.End, messages+e.Messages
	}
	require.EqualValues(t, 8, last, "a rest of a nanosecond is no line")
	require.EqualValues(t, 80, messages)
	require.EqualValues(t, 81, v.now.Received)
}

// TestBenchText: what it looks like for people.
func TestBenchText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, simnet.Link{Latency: 50 * time.Millisecond})
		defer v.close()
		o := v.bench(3*time.Second, 1e6, 1000)
		o.json, o.reverse = false, true
		var out bytes.Buffer
		require.NoError(t, o.run(t.Context(), virtualServer, &out))
		for _, want := range []string{
			`^bench from 10\.0\.0\.1:7777 over volley, for 3s\nmessages of 1000 bytes, at 1\.00 Mbit/s\n`,
			`\n  0\.0-1\.0 s`, `\n  0\.0-3\.0 s +\S+ KiB +1\.0\d Mbit/s`,
			`\n37\d messages sent, 37\d received, 0 lost`,
			`\nround trip under load  median 100\.0 ms, 95 % 100\.0 ms\n`,
		} {
			require.Regexp(t, want, out.String())
		}
		for l := range strings.Lines(out.String()) {
			require.LessOrEqual(t, len(l), 81)
			if strings.Contains(l, "bit/s ") {
				require.Len(t, l, 61)
			}
		}
	})
}

// TestRateLimit: several that send share what there is, and large messages get as
// much of it as small ones.
func TestRateLimit(t *testing.T) {
	require.Nil(t, newRateLimit(0))
	require.EqualValues(t, 64, newRateLimit(0).take(64, 1200, time.Now()))
	l := newRateLimit(8e6)
	now := time.Unix(0, 0)
	sizes := []int{100, 60_000}
	sent := make([]int, len(sizes))
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		now = now.Add(time.Millisecond / 2)
		k := random.IntN(len(sizes)) // who wants to send
		sent[k] += sizes[k] * int(l.take(burst, sizes[k], now))
	}
	require.InEpsilon(t, 10e6, sent[0]+sent[1], 0.02)
	require.Greater(t, sent[0], 50_000)
	require.Greater(t, sent[1], 1_000_000)
	before := sent[0]
	for range 1000 { // after a rest there is no more than that of limitBurst
		sent[0] += 100 * int(l.take(burst, 100, now.Add(time.Hour)))
	}
	require.InDelta(t, 20_000, sent[0]-before, 200)
	require.Zero(t, l.take(burst, 100, now)) // earlier than before
}

// TestServeMaxRate: it holds for all clients together.
func TestServeMaxRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, simnet.Link{Latency: 10 * time.Millisecond}, func(o *serveOptions) { o.maxRate = 2e6 })
		defer v.close()
		var outs [4]bytes.Buffer
		var wg sync.WaitGroup
		for i := range outs {
			wg.Go(func() {
				o := v.bench(10*time.Second, 0, 1000)
				o.reverse = true
				assert.NoError(t, o.run(t.Context(), virtualServer, &outs[i]))
			})
		}
		wg.Wait()
		total := 0.0
		for i := range outs {
			var e benchEvent
			lastLine(t, outs[i].String(), &e)
			require.Greater(t, 8*e.Rate, 1e5)
			total += e.Rate
		}
		require.InEpsilon(t, 2e6, 8*total, 0.03)
	})
}

// TestBenchGone: a server stops sending to a client that has gone, and one that
// does not prove its address is sent nothing.
func TestBenchGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, simnet.Link{Latency: 20 * time.Millisecond})
		defer v.close()
		var w wireOptions
		w.protocol, w.inner = protocolVolley, v.dial
		conn, err := w.dial(t.Context(), virtualServer)
		require.NoError(t, err)
		defer conn.Close()
		r := benchRequest{Reverse: true, Duration: time.Hour, Interval: time.Second, Size: 1000, Rate: 1e6}
		conn.Write(appendJSON(nil, probe{kind: probeStart}, r))
		m, err := conn.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		p, ok := parseProbe(m)
		require.True(t, ok)
		require.Equal(t, probeAccept, p.kind)
		conn.Write((&probe{kind: probeGo, number: p.number + 1}).append(nil, probeSize)) // a guess
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.ReadMessage(context.Background(), nil)
		require.ErrorContains(t, err, "timeout")
		conn.Write((&probe{kind: probeGo, number: p.number}).append(nil, probeSize))
		time.Sleep(10 * time.Second) // and no more
		conn.SetReadDeadline(time.Now().Add(time.Second))
		data := 0
		for {
			m, err := conn.ReadMessage(context.Background(), nil)
			if err != nil {
				break
			}
			if p, _ := parseProbe(m); p.kind == probeData {
				data++
			}
		}
		require.InDelta(t, 125*goneAfter.Seconds(), data, 60)
	})
}

// TestServeForged: who has not shown that its address is its own is sent no more
// than has come from there, whatever it asks for.
func TestServeForged(t *testing.T) {
	request := benchRequest{Duration: time.Hour, Interval: minBenchInterval, Size: 1000, Rate: 1e6}
	start := appendJSON(nil, probe{kind: probeStart}, request)
	small := func(kind byte) []byte { return (&probe{kind: kind}).append(nil, probeSize) }
	for name, script := range map[string][][]byte{
		"reports":    {start, small(probeData)},
		"report":     {start, small(probeData), small(probeEnd), small(probeEnd), small(probeEnd)},
		"check":      {small(probeCheck), small(probeCheck)},
		"no request": {small(probeStart), small(probeStart)},
		"echo":       {small(probePing), []byte("x")},
	} {
		synctest.Test(t, func(t *testing.T) {
			v := newVirtual(t, simnet.Link{Latency: 20 * time.Millisecond})
			defer v.close()
			var w wireOptions
			w.protocol, w.inner = protocolVolley, v.dial
			conn, err := w.dial(t.Context(), virtualServer)
			require.NoError(t, err)
			defer conn.Close()
			sent, got := 0, 0
			for _, m := range script {
				_, err := conn.Write(m)
				require.NoError(t, err)
				sent += len(m)
				time.Sleep(time.Second) // one after the other
			}
			conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			for {
				m, err := conn.ReadMessage(context.Background(), nil)
				if err != nil {
					break
				}
				got += len(m)
			}
			require.LessOrEqual(t, got, sent, name)
			if name == "echo" {
				require.Equal(t, sent, got)
			}
		})
	}
}

// TestServeTrim: what a stranger's large message took is not kept for the next.
func TestServeTrim(t *testing.T) {
	c := &client{buf: make([]byte, 10, maxProbe)}
	c.proved.Store(true)
	c.trim()
	require.Equal(t, maxProbe, cap(c.buf))
	c.proved.Store(false)
	c.trim()
	require.Nil(t, c.buf)
	c.buf = make([]byte, 10, unprovedBuffer)
	c.trim()
	require.NotNil(t, c.buf)
}

// late is a context that ends later than it says, as on a busy machine.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// TestBenchLate: a sender that is late sends no more than is due by the deadline.
func TestBenchLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, simnet.Link{})
		defer v.close()
		var w wireOptions
		w.protocol, w.inner = protocolVolley, v.dial
		conn, err := w.dial(t.Context(), virtualServer)
		require.NoError(t, err)
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s := sendData(late{ctx, time.Now().Add(time.Second)}, conn, 1000, 80_000, nil)
		require.NoError(t, s.err)
		require.EqualValues(t, 11, s.count)
	})
}

// TestBenchServeLimits: serve may refuse, and bounds what it sends.
func TestBenchServeLimits(t *testing.T) {
	_, address := serving(t, "--no-bench")
	o := program(t, "bench", "-t", "1", address)
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, "--no-bench")

	_, address = serving(t, "--max-rate", "1Mbit", "--max-time", "500ms")
	o = program(t, "bench", "--json", "-R", "-b", "0", "-t", "20", address)
	require.Equal(t, exitOK, o.status, o.stderr)
	var e benchEvent
	lastLine(t, o.stdout, &e)
	require.LessOrEqual(t, e.Expected, uint64(60)) // of 52
}

// TestBenchPrograms: as users run them, over each protocol, with a proxy between
// them, whose own count is the truth.
func TestBenchPrograms(t *testing.T) {
	for _, protocol := range []string{"volley", "porous"} {
		for _, flags := range [][]string{nil, {"--reverse"}, {"--key", strings.Repeat("1a", 32)}} {
			serve := []string{"--protocol", protocol}
			if len(flags) == 2 {
				serve = append(serve, flags...)
			}
			server, address := serving(t, serve...)
			link := simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.05}
			dial := address
			if len(flags) < 2 { // a token names the address of the server
				proxy, err := simnet.NewProxy(simnet.ProxyConfig{Target: address, Up: link, Down: link, Seed: 1})
				require.NoError(t, err)
				defer proxy.Close()
				dial = proxy.Addr().String()
				defer func() {
					up, down := proxy.Stats()
					t.Logf("%s %v: %+v %+v", protocol, flags, up, down)
				}()
			}
			o := program(t, append([]string{"bench", "--json", "-b", "4Mbit", "-t", "1.5", "-i", "0.5", "--protocol", protocol, dial}, flags...)...)
			require.Equal(t, exitOK, o.status, "%s %v: %s", protocol, flags, o.stderr)
			var e benchEvent
			lastLine(t, o.stdout, &e)
			require.NotZero(t, e.Messages)
			if protocol == "porous" {
				require.Zero(t, e.Lost)
				require.Equal(t, *e.Sent, e.Messages)
			}
			require.Contains(t, o.stdout, `"interval"`)
			require.Equal(t, exitOK, server.interrupt().status)
		}
	}
}

// TestBenchInterrupt: Ctrl-C ends with a summary, in lines for people.
func TestBenchInterrupt(t *testing.T) {
	_, address := serving(t)
	p := start(t, "bench", "-t", "1m", "-i", "0.1", address)
	p.line("  jitter  ") // the head, then two intervals of any length
	p.line(" ms ")
	p.line(" ms ")
	o := p.interrupt()
	require.Equal(t, exitOK, o.status, o.stderr)
	require.Contains(t, o.stdout, "messages sent")
	require.NotContains(t, o.stdout, "missing")
}

// TestBenchNobody: what there is to say where nobody answers.
func TestBenchNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		v := &virtual{net: n}
		o := v.bench(time.Second, 1e6, 1000)
		err := o.run(context.Background(), virtualServer, new(bytes.Buffer))
		require.ErrorContains(t, err, `is "volley serve`)
	})
}

// TestBenchFalseTimes: what a server sends back as a time at which nothing can have
// been sent does not count.
func TestBenchFalseTimes(t *testing.T) {
	b := &bencher{view: newBenchView(io.Discard, &benchOptions{})}
	now := 10 * time.Second
	for _, sent := range []time.Duration{-1, -time.Hour, math.MinInt64, now + 1, math.MaxInt64} {
		b.answered(probe{kind: probePing, sent: sent}, now)
		require.Zero(t, b.view.rtts.count, "%d", sent)
	}
	b.answered(probe{kind: probePing, sent: now - time.Millisecond}, now)
	b.answered(probe{kind: probePing, sent: 0}, now)
	require.EqualValues(t, 2, b.view.rtts.count)
}
