package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// jobEnv is the environment variable by which a process is told its job.
const jobEnv = "VOLLEY_BENCH_JOB"

// bellFD is the file descriptor through which a server wakes the clients of
// another process.
const bellFD = 3

// runChild does the job in text and writes the result to standard output.
func runChild(text string) error {
	j := new(job)
	if err := json.Unmarshal([]byte(text), j); err != nil {
		return err
	}
	p := findPeer(j.Peer)
	if p == nil {
		return fmt.Errorf("no peer %q", j.Peer)
	}
	roles := map[string]func(*job, *peer) (*result, error){
		roleBoth: runBoth, roleServer: runServer, roleClient: runClient, rolePair: runAlone,
	}
	r, err := roles[j.Role](j, p)
	if r == nil {
		r = new(result)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// runBoth is a whole run in one process.
func runBoth(j *job, p *peer) (*result, error) {
	if j.Mode == modeIdle {
		streamBuffer = 1 << 10
	}
	b := new(board)
	c := newClient(j, p, b)
	if j.Mode == modeIdle {
		c.first = noteBefore
	}
	s, err := newServer(j, p, b, c.ring)
	if err != nil {
		return nil, err
	}
	defer s.close()
	go s.run()
	defer c.close()
	if err := c.connect(s.ln.Addr().String()); err != nil {
		return nil, err
	}
	r, err := c.run()
	if r != nil {
		s.report(r)
	}
	return r, err
}

// runServer prints the address it listens on and serves until its standard
// input ends.
func runServer(j *job, p *peer) (*result, error) {
	b, err := openBoard(j.Board)
	if err != nil {
		return nil, err
	}
	if j.Rate > 0 {
		streamBuffer = 1 << 10
	}
	bell := os.NewFile(bellFD, "bell")
	s, err := newServer(j, p, b, func(i int) { _, _ = bell.Write([]byte{byte(i)}) })
	if err != nil {
		return nil, err
	}
	defer s.close()
	go s.run()
	fmt.Println(s.ln.Addr())
	m := meterPhases(b, j)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return nil, err
	}
	r := new(result)
	(<-m).report(r)
	s.report(r)
	return r, s.game(r)
}

// A phaseMeter also counts the messages in and out of a server of mode game, and
// the memory that its clients take.
type phaseMeter struct {
	meter
	handled uint64
	memory  float64 // bytes a client
}

func (m *phaseMeter) report(r *result) {
	m.meter.report(r)
	r.Handled, r.ServerBytes = m.handled, m.memory
}

// meterPhases takes the usage while another process measures.
func meterPhases(b *board, j *job) <-chan *phaseMeter {
	done := make(chan *phaseMeter, 1)
	games := j.Rate > 0
	go func() {
		m := new(phaseMeter)
		var one int64 // in use with one client
		if games {
			for b.weighed.Load() != weighNow && b.phase.Load() < phaseExit {
				time.Sleep(time.Millisecond)
			}
			one = memoryInUse()
			b.weighed.Store(weighDone)
		}
		awaitPhase(b, phaseMeasure)
		m.start()
		before := b.handled()
		awaitPhase(b, phaseDone)
		m.stop()
		m.handled = b.handled() - before
		if games {
			m.memory = float64(memoryInUse()-one) / float64(max(1, j.Clients-1))
		}
		done <- m
	}()
	return done
}

func awaitPhase(b *board, phase uint32) {
	for b.phase.Load() < phase {
		time.Sleep(20 * time.Millisecond) // seldom: it counts as the server's time
	}
}

// runClient sends to a server in another process.
func runClient(j *job, p *peer) (*result, error) {
	b, err := openBoard(j.Board)
	if err != nil {
		return nil, err
	}
	defer b.phase.Store(phaseExit) // so that the server ends, whatever happens
	if j.Rate > 0 {
		streamBuffer = 1 << 10
	}
	if j.Style == styleFanOut {
		runtime.GOMAXPROCS(1) // the server shall not wait for a processor, nor wake one for each message
	}
	c := newClient(j, p, b)
	go func() {
		bell := bufio.NewReader(os.NewFile(bellFD, "bell"))
		for {
			i, err := bell.ReadByte()
			if err != nil {
				return
			}
			c.ring(int(i))
		}
	}()
	defer c.close()
	if j.Rate > 0 {
		c.first = b.weighFirst
	}
	if err := c.connect(j.Addr); err != nil {
		return nil, err
	}
	return c.run()
}
