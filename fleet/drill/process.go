package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A process is this program, with other work.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log *logs
}

// logs are what a process says on its standard error.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// program is what processes run.
var program = os.Executable

func start(nice bool, args ...string) (*process, error) {
	name, err := program()
	if err != nil {
		return nil, err
	}
	return startOf(name, nice, args...)
}

func startOf(name string, nice bool, args ...string) (*process, error) {
	if at, err := exec.LookPath("nice"); err == nil && nice {
		name, args = at, append([]string{"-n", "10", name}, args...)
	}
	p := &process{cmd: exec.Command(name, args...), log: new(logs)}
	p.cmd.Env = append(os.Environ(), "VOLLEY_DRILL=1")
	p.cmd.Stderr = p.log
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	return p, p.cmd.Start()
}

// ask sends a line, and reads the answer.
func (p *process) ask(line string, answer any) error {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return err
	}
	b, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%w: %s", err, p.log)
	}
	return json.Unmarshal(b, answer)
}

// kill ends a process as a power cut does.
func (p *process) kill() {
	p.goOn()
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// end ends a process in order.
func (p *process) end() error {
	p.in.Close()
	over := make(chan error, 1)
	go func() { over <- p.cmd.Wait() }()
	select {
	case err := <-over:
		return err
	case <-time.After(30 * time.Second):
		p.cmd.Process.Kill()
		<-over
		return errors.New("the process does not end")
	}
}

// A world is a fleet of three nodes, and its clients.
type world struct {
	dir     string
	network network
	nodes   []*member
	clients *process
	url     string // of NATS apart
}

// A network is where the nodes are, which have numbers from 0 on.
type network interface {
	// place returns where a node listens for clients and for other nodes.
	place(node int) (listen, cluster string, err error)
	// routes returns where a node reaches the others, and where it says that it is reached itself.
	routes(node int) (others []string, advertise string)
	// start calls f where the processes of a node are started.
	start(node int, f func() error) error
	// cut has a node and the others not reach each other, or reach each other again.
	cut(node int, is bool) error
	close()
}

// A member is a place in the fleet, in which one process after the other is the node.
type member struct {
	*process
	program string // empty: this one
	world   *world
	number  int
	name    string
	listen  string
	cluster string
	url     string
}

const size = 3 // nodes

// newWorld starts a fleet on the loopback interface. Without a URL of NATS the nodes have their
// own servers.
func newWorld(url string, programs ...string) (*world, error) {
	return newWorldIn(new(loopback), url, programs...)
}

func newWorldIn(in network, url string, programs ...string) (w *world, err error) {
	w = &world{network: in, url: url}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "volley-drill-"); err != nil {
		return nil, err
	}
	for i := range size {
		m := &member{world: w, number: i, name: fmt.Sprintf("node-%d", i+1)}
		if i < len(programs) {
			m.program = programs[i]
		}
		if m.listen, m.cluster, err = in.place(i); err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, m)
	}
	for _, m := range w.nodes {
		if err := m.start(); err != nil {
			return nil, err
		}
	}
	return w, w.whole()
}

func (m *member) start() (err error) {
	args := []string{"node", "-name", m.name, "-key", filepath.Join(m.world.dir, "fleet.key"), "-listen", m.listen}
	if m.world.url != "" {
		args = append(args, "-url", m.world.url)
	} else {
		routes, advertise := m.world.network.routes(m.number)
		args = append(args, "-cluster", m.cluster, "-routes", strings.Join(routes, ","), "-advertise", advertise)
	}
	name := m.program
	if name == "" {
		if name, err = program(); err != nil {
			return err
		}
	}
	err = m.world.network.start(m.number, func() (err error) {
		m.process, err = startOf(name, false, args...)
		return err
	})
	if err != nil {
		return err
	}
	s, err := m.status("")
	m.url = s.URL
	return err
}

func (m *member) status(of string) (s status, err error) {
	if err = m.ask(of, &s); err == nil && s.Err != "" {
		err = errors.New(s.Err)
	}
	return s, err
}

// until waits for something, and fails if that does not come in time.
func until(what string, most time.Duration, f func() (bool, error)) error {
	ok, err := within(most, f)
	if err == nil && !ok {
		err = errors.New("after " + most.String() + " still not: " + what)
	}
	return err
}

// within reports whether something comes in time.
func within(most time.Duration, f func() (bool, error)) (bool, error) {
	for end := time.Now().Add(most); ; time.Sleep(50 * time.Millisecond) {
		if ok, err := f(); ok || err != nil || time.Now().After(end) {
			return ok, err
		}
	}
}

// renew drains nodes and starts them anew, one after the other.
func (w *world) renew(nodes []*member, clients int) error {
	for _, m := range nodes {
		if _, err := m.status("drain"); err != nil {
			return err
		}
		if err := m.end(); err != nil {
			return err
		}
		if err := m.start(); err != nil {
			return err
		}
		if err := errors.Join(w.whole(), w.spared(clients)); err != nil {
			return err
		}
	}
	return nil
}

// whole waits until all nodes hear all.
func (w *world) whole() error {
	return until("all nodes hear all", time.Minute, func() (bool, error) {
		for _, m := range w.nodes {
			if s, err := m.status(""); err != nil || s.Alive != size-1 {
				return false, err
			}
		}
		return true, nil
	})
}

// spared waits until all clients have a token for another node. A token that was lost on its way
// is asked for again within two seconds.
func (w *world) spared(count int) error {
	defer time.Sleep(2 * time.Second)
	return until("all clients have spare tokens", time.Minute, func() (bool, error) {
		have, sessions := 0, 0
		for _, m := range w.nodes {
			s, err := m.status("")
			if err != nil {
				return false, err
			}
			have += s.Stats.Spared
			sessions += s.Stats.Sessions
		}
		return have >= count && sessions == have, nil
	})
}

// join starts clients.
func (w *world) join(count int, rate float64) (err error) {
	var urls []string
	for _, m := range w.nodes {
		urls = append(urls, m.url)
	}
	w.clients, err = start(true, "clients", "-urls", strings.Join(urls, ","), "-count", fmt.Sprint(count), "-rate", fmt.Sprint(rate))
	if err != nil {
		return err
	}
	if err := w.clients.ask("", new(report)); err != nil {
		return err
	}
	return w.spared(count)
}

// report asks the clients how they have fared since the last report.
func (w *world) report(t *table) (r report, err error) {
	err = w.clients.ask("", &r)
	t.late = max(t.late, r.Late)
	slices.Sort(r.Gaps)
	return r, err
}

// settled waits until all clients hear their servers, and adds whether they do.
func (w *world) settled(t *table) error {
	time.Sleep(1500 * time.Millisecond)
	var r report
	ok, err := within(time.Minute, func() (bool, error) {
		r = report{}
		err := w.clients.ask("look", &r)
		t.late = max(t.late, r.Late)
		return r.Silent == 0, err
	})
	t.addBusy(ok, "clients that are silent", fmt.Sprint(r.Silent), "0")
	return err
}

func (r *report) percentile(p float64) time.Duration {
	if len(r.Gaps) == 0 {
		return 0
	}
	return r.Gaps[min(int(p*float64(len(r.Gaps))), len(r.Gaps)-1)]
}

// seats returns how many sessions there are, and how many are at two nodes.
func (w *world) seats() (sessions, twice int, err error) {
	at := make(map[string]int)
	for _, m := range w.nodes {
		s, err := m.status("seats")
		if err != nil {
			return 0, 0, err
		}
		for id := range s.Seats {
			at[id]++
		}
	}
	for _, n := range at {
		if n > 1 {
			twice++
		}
	}
	return len(at), twice, nil
}

func (w *world) close() {
	if w.clients != nil {
		w.clients.kill()
	}
	for _, m := range w.nodes {
		if m.process != nil {
			m.kill()
		}
	}
	w.network.close()
	os.RemoveAll(w.dir)
}
