package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// kill kills each node in turn.
func kill(t *table, s sizes) error {
	w, err := newWorld("")
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.join(s.clients, s.rate); err != nil {
		return err
	}
	for _, m := range w.nodes {
		there, err := m.status("")
		if err != nil {
			return err
		}
		if _, err := w.report(t); err != nil {
			return err
		}
		m.kill()
		if err := w.settled(t); err != nil {
			return err
		}
		r, err := w.report(t)
		if err != nil {
			return err
		}
		there2 := fmt.Sprintf("%s dies with %d clients", m.name, there.Stats.Sessions)
		hit := float64(max(there.Stats.Sessions, 1)) / float64(s.clients) // the others feel nothing
		t.atMost(s, there2+": p99 of theirs is back", r.percentile(1-0.01*hit), 2*time.Second)
		t.note(there2+": half of theirs are back", r.percentile(1-0.5*hit).Round(time.Millisecond).String())
		t.atMost(s, there2+": the last is back", r.percentile(1), 5*time.Second)
		t.lost(there2+": ", r)
		t.note("delay of timers at the clients", r.Late.Round(time.Millisecond).String())
		if err := m.start(); err != nil {
			return err
		}
		if err := errors.Join(w.whole(), w.spared(s.clients)); err != nil {
			return err
		}
	}
	return once(t, w, s.clients, "after all")
}

// once adds whether each session has one seat.
func once(t *table, w *world, clients int, when string) error {
	sessions, twice, err := w.seats()
	t.addBusy(sessions == clients, when+": sessions", fmt.Sprint(sessions), fmt.Sprint(clients))
	t.is(when+": sessions with two seats", twice, 0)
	return err
}

// rolling restarts all nodes, one after the other.
func rolling(t *table, s sizes) error {
	w, err := newWorld("")
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.join(s.clients, s.rate); err != nil {
		return err
	}
	if _, err := w.report(t); err != nil {
		return err
	}
	begin := time.Now()
	if err := w.renew(w.nodes, s.clients); err != nil {
		return err
	}
	r, err := w.report(t)
	if err != nil {
		return err
	}
	t.note(fmt.Sprintf("all three anew under %d clients", s.clients), time.Since(begin).Round(time.Millisecond).String())
	t.note("sessions that moved", fmt.Sprint(r.Moved))
	t.note("delay of timers at the clients", r.Late.Round(time.Millisecond).String())
	t.note("p99 of the longest gaps", r.percentile(0.99).Round(time.Millisecond).String())
	t.atMost(s, "the longest gap", r.percentile(1), 250*time.Millisecond)
	t.lost("", r)
	return once(t, w, s.clients, "after all")
}

// stop has a node stand still for a while.
func stop(t *table, s sizes) error {
	w, err := newWorld("")
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.join(s.clients, s.rate); err != nil {
		return err
	}
	if _, err := w.report(t); err != nil {
		return err
	}
	m := w.nodes[0]
	m.process.stop()
	time.Sleep(s.stop)
	m.process.goOn()
	if err := oneSeat(t, w, s, "a node stood still for "+s.stop.String()); err != nil {
		return err
	}
	if err := w.settled(t); err != nil {
		return err
	}
	r, err := w.report(t)
	if err != nil {
		return err
	}
	t.atMost(s, "the longest gap of a client", r.percentile(1), 5*time.Second)
	t.lost("", r)
	return once(t, w, s.clients, "after all")
}

// oneSeat waits until each session has one seat, and adds how long that took.
func oneSeat(t *table, w *world, s sizes, when string) error {
	begin := time.Now()
	_, first, err := w.seats()
	if err != nil {
		return err
	}
	for twice := first; twice > 0; {
		if time.Since(begin) > 30*time.Second {
			break
		}
		time.Sleep(20 * time.Millisecond)
		if _, twice, err = w.seats(); err != nil {
			return err
		}
	}
	t.note(when+": sessions with two seats", fmt.Sprint(first))
	t.atMost(s, when+": each session has one seat after", time.Since(begin), time.Second)
	return nil
}

// partition cuts the routes of one node to the others. Its clients go elsewhere meanwhile,
// because it stands still for some time, and it does not learn of that.
func partition(t *table, s sizes) error { return partitionIn(t, s, new(loopback)) }

func partitionIn(t *table, s sizes, in network) error {
	w, err := newWorldIn(in, "")
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.join(s.clients, s.rate); err != nil {
		return err
	}
	if _, err := w.report(t); err != nil {
		return err
	}
	lone := w.nodes[0]
	begin := time.Now()
	if err := in.cut(lone.number, true); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	lone.process.stop()
	time.Sleep(3 * time.Second)
	lone.process.goOn()
	_, twice, err := w.seats()
	if err != nil {
		return err
	}
	t.note("sessions at two nodes while 1 | 2 are apart", fmt.Sprint(twice))
	time.Sleep(time.Until(begin.Add(s.partition)))
	alive, err := lone.status("")
	if err != nil {
		return err
	}
	t.is("nodes that the lone one hears", alive.Alive, 0)
	if err := in.cut(lone.number, false); err != nil {
		return err
	}
	begin = time.Now()
	if err := w.whole(); err != nil {
		return err
	}
	t.atMost(s, "the routes are back after", time.Since(begin), 5*time.Second)
	if err := oneSeat(t, w, s, "the routes are back"); err != nil {
		return err
	}
	r, err := w.report(t)
	if err != nil {
		return err
	}
	t.atMost(s, "the longest gap of a client", r.percentile(1), 5*time.Second)
	t.lost("", r)
	return once(t, w, s.clients, "after all")
}

// memory measures what clients take at the nodes.
func memory(t *table, s sizes) error {
	w, err := newWorld("")
	if err != nil {
		return err
	}
	defer w.close()
	used := func() (sum uint64, err error) {
		for _, m := range w.nodes {
			st, err := m.status("memory")
			if err != nil {
				return 0, err
			}
			sum += st.Memory
		}
		return sum, nil
	}
	before, err := used()
	if err != nil {
		return err
	}
	if err := w.join(s.many, s.manyRate); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	after, err := used()
	if err != nil {
		return err
	}
	each := int(after-before) / s.many
	t.add(each <= 8<<10, fmt.Sprintf("bytes a client at all nodes together, %d clients", s.many), fmt.Sprint(each), "at most 8192")
	t.note("MiB that 50,000 clients would take at all nodes", fmt.Sprint(each*50000>>20))
	return nil
}

// natsGone ends a NATS that is apart from the nodes.
func natsGone(t *table, s sizes) error {
	app, control := natsserver.NewAccount("app"), natsserver.NewAccount("control")
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true,
		Accounts: []*natsserver.Account{app, control},
		Users: []*natsserver.User{
			{Username: "app", Password: "app", Account: app}, {Username: "control", Password: "control", Account: control},
		},
	})
	if err != nil {
		return err
	}
	server.Start()
	defer server.WaitForShutdown()
	defer server.Shutdown()
	w, err := newWorld(server.ClientURL())
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.join(s.clients, s.rate); err != nil {
		return err
	}
	if _, err := w.report(t); err != nil {
		return err
	}
	server.Shutdown()
	time.Sleep(5 * time.Second)
	r, err := w.report(t)
	if err != nil {
		return err
	}
	t.is("sessions that moved or were lost", r.Moved+r.Redials+r.Gone, 0)
	t.is("clients that hear nothing", r.Silent, 0)
	for _, m := range w.nodes {
		toks, err := fetch(m.url, 1)
		if err != nil {
			return err
		}
		var n shown
		if err := n.show(toks, []string{m.listen}, nil); err != nil {
			return err
		}
		t.is(m.name+": a new client comes", n.sessions, 1)
		t.is(m.name+": lines of the log that say it", strings.Count(m.log.String(), "NATS is gone"), 1)
	}
	return nil
}

// tokens shows each token at all nodes at once, once more, and again after a restart of a node.
func tokens(t *table, s sizes) error {
	w, err := newWorld("")
	if err != nil {
		return err
	}
	defer w.close()
	var addresses []string
	for _, m := range w.nodes {
		addresses = append(addresses, m.listen)
	}
	var first, again, restarted shown
	seats := 0
	for done := 0; done < s.tokens; {
		chunk := min(s.chunk, s.tokens-done)
		done += chunk
		var toks [][]byte
		for i, m := range w.nodes {
			some, err := fetch(m.url, (chunk+i)/size)
			if err != nil {
				return err
			}
			toks = append(toks, some...)
		}
		err = first.show(toks, addresses, func() error {
			_, twice, err := w.seats()
			seats += twice
			return err
		})
		if err != nil {
			return err
		}
		if err := again.show(toks, addresses, nil); err != nil {
			return err
		}
		m := w.nodes[done/max(s.chunk, 1)%size]
		m.kill()
		if err := m.start(); err != nil {
			return err
		}
		if err := restarted.show(toks, addresses, nil); err != nil {
			return err
		}
	}
	t.is("tokens shown at all nodes at once: sessions", first.sessions, s.tokens)
	t.is("of them, with more than one session", first.twice, 0)
	t.is("sessions with two seats", seats, 0)
	t.is("the tokens once more: sessions", again.sessions, 0)
	t.is("the tokens after a restart of a node: sessions", restarted.sessions, 0)
	return w.whole()
}

// clock has one node whose clock is five seconds ahead.
func clock(t *table, s sizes) error {
	dir, err := os.MkdirTemp("", "volley-drill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name, err := early(dir)
	if err != nil {
		t.note("a node whose clock is 5 s ahead", "not done: "+err.Error())
		return nil
	}
	w, err := newWorld("", name)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.join(s.clients, s.rate); err != nil {
		return err
	}
	if _, err := w.report(t); err != nil {
		return err
	}
	if err := w.renew(w.nodes[:2], s.clients); err != nil { // away from the early node, and to it
		return err
	}
	r, err := w.report(t)
	if err != nil {
		return err
	}
	t.note("a node whose clock is 5 s ahead: sessions that moved", fmt.Sprint(r.Moved))
	t.note("delay of timers at the clients", r.Late.Round(time.Millisecond).String())
	t.atMost(s, "the longest gap", r.percentile(1), 250*time.Millisecond)
	t.lost("", r)
	return once(t, w, s.clients, "after all")
}

// early builds this program with a package time that is five seconds ahead.
func early(dir string) (name string, err error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	const now = "func Now() Time {\n"
	body, ok := strings.CutPrefix(string(text), "")
	at := strings.Index(body, now)
	call := strings.Index(body[max(at, 0):], "sec, nsec, mono := runtimeNow()\n")
	if !ok || at < 0 || call < 0 {
		return "", errors.New("package time has another form")
	}
	end := at + call + len("sec, nsec, mono := runtimeNow()\n")
	changed := filepath.Join(dir, "time.go")
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	err = errors.Join(os.WriteFile(changed, []byte(body[:end]+"\tsec += 5\n"+body[end:]), 0o600), os.WriteFile(overlay, b, 0o600))
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "early")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	out, err = exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", name, "volley/fleet/drill").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
}
