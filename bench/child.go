package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
		roleBoth: runBoth, roleServer: runServer, roleClient: runClient,
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
		r.latency(&s.latency)
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
	bell := os.NewFile(bellFD, "bell")
	s, err := newServer(j, p, b, func(i int) { _, _ = bell.Write([]byte{byte(i)}) })
	if err != nil {
		return nil, err
	}
	defer s.close()
	go s.run()
	fmt.Println(s.ln.Addr())
	m := meterPhases(b)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return nil, err
	}
	r := new(result)
	(<-m).report(r)
	r.latency(&s.latency)
	return r, nil
}

// meterPhases takes the usage while another process measures.
func meterPhases(b *board) <-chan *meter {
	done := make(chan *meter, 1)
	go func() {
		m := new(meter)
		awaitPhase(b, phaseMeasure)
		m.start()
		awaitPhase(b, phaseDone)
		m.stop()
		done <- m
	}()
	return done
}

func awaitPhase(b *board, phase uint32) {
	for b.phase.Load() < phase {
		time.Sleep(5 * time.Millisecond)
	}
}

// runClient sends to a server in another process.
func runClient(j *job, p *peer) (*result, error) {
	b, err := openBoard(j.Board)
	if err != nil {
		return nil, err
	}
	defer b.phase.Store(phaseExit) // so that the server ends, whatever happens
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
	if err := c.connect(j.Addr); err != nil {
		return nil, err
	}
	return c.run()
}
