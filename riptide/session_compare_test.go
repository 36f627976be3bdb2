package riptide

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// compareTraffic compares what ours has sent with what the recorded one did:
// answers, first sends of each mode, and the rest, each in order. When something
// is sent again depends on times to the millisecond.
func (r *recording) compareTraffic(t *testing.T, client int, recorded []*recorded, sent []timed, from side, begin time.Time) {
	t.Helper()
	ours := whats(sent)
	before := whats(r.before(sent, begin, sameMoment))
	var want []string
	for _, e := range recorded {
		want = append(want, hex.EncodeToString(e.Hex))
	}
	for _, last := range []string{"05", "5500", "0505"} {
		if !slices.Contains(want, last) { // the end was not recorded
			ours = slices.DeleteFunc(ours, func(h string) bool { return h == last })
			before = slices.DeleteFunc(before, func(h string) bool { return h == last })
		}
	}
	for _, kind := range []string{"answers", "reliable", "unreliable", "notify", "handshake"} {
		got, want := pick(t, ours, from, kind), pick(t, want, from, kind)
		got = got[:max(min(len(got), len(want)), len(pick(t, before, from, kind)))]
		if n := len(got) - 1; n >= 0 && n == len(want) && strings.HasPrefix(got[n], "heartbeat") {
			got = got[:n] // just before the end
		}
		if !slices.Equal(got, want) {
			t.Errorf("client %d: %s sent:\n%v\nwant\n%v", client, kind, got, want)
		}
	}
	got, inTime, most := sends(ours), sends(whats(r.before(sent, begin, 0))), sends(want)
	for m, n := range most {
		if got[m] < 1 || inTime[m] > n+3 || n == 15 && got[m] != n {
			t.Errorf("client %d: %s was sent %d times, the recorded one %d times", client, m, got[m], n)
		}
	}
}

// before returns what came so many milliseconds before the recording ended, or earlier.
func (r *recording) before(list []timed, begin time.Time, ms float64) (before []timed) {
	end := begin.Add(time.Duration((r.end() - ms) * float64(time.Millisecond)))
	for _, x := range list {
		if x.at.Before(end) {
			before = append(before, x)
		}
	}
	return before
}

func whats(list []timed) (whats []string) {
	for _, x := range list {
		whats = append(whats, x.what)
	}
	return whats
}

// sends counts how often each reliable message was sent.
func sends(list []string) map[string]int {
	n := make(map[string]int)
	for _, h := range list {
		b, _ := hex.DecodeString(h)
		if p, ok := (codec{}).parse(clientSide, b); ok && p.typ.reliable() {
			n[h]++
		}
	}
	return n
}

// pick returns the datagrams of a kind without what is sent again.
func pick(t *testing.T, list []string, from side, kind string) (picked []string) {
	t.Helper()
	seen := make(map[string]bool)
	for _, h := range list {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		p, ok := codec{}.parse(from, b)
		if !ok {
			t.Fatalf("%s is no datagram", h)
		}
		k := "handshake"
		switch p.typ {
		case typeAck, typeHeartbeat:
			k = "answers"
			if p.typ == typeHeartbeat && p.rtt > 0 {
				h = fmt.Sprintf("heartbeat %d with a round-trip time", p.pingID)
			}
		case typeUnreliable:
			k = "unreliable"
		case typeNotify:
			k = "notify"
		case typeReliable, typeWelcome, typeClientConnected, typeClientDisconnected:
			k = "reliable"
			if seen[h] {
				continue
			}
			seen[h] = true
		case typeDisconnect:
			if seen[h] { // ours repeat it
				continue
			}
			seen[h] = true
		}
		if k == kind {
			picked = append(picked, h)
		}
	}
	return picked
}

// compareEvents compares what the applications were told, by kind, in order.
func (r *recording) compareEvents(t *testing.T, side string, told []timed, begin time.Time) {
	t.Helper()
	want := make(map[string][]string)
	for _, e := range r.Log {
		if e.Kind != "event" || e.Side != side || e.Name == "started" || e.Name == "connect_called" {
			continue
		}
		d, line := e.Data, e.Name
		switch e.Name {
		case "client_connected", "connected", "other_client_connected", "other_client_disconnected":
			line += fmt.Sprint(" ", d.ID)
		case "client_disconnected":
			line += fmt.Sprint(" ", d.ID, " ", reasonText(d.Reason))
		case "disconnected":
			line += fmt.Sprint(" ", reasonText(d.Reason), " ", d.bits())
		case "reliable_delivered", "notify_delivered", "notify_lost":
			line += fmt.Sprint(" ", d.Sequence)
		case "notify_received":
			line += fmt.Sprint(" ", d.Unread)
		case "message":
			line += fmt.Sprint(" ", d.From, " ", d.Mode, " ", d.Message, " ", d.Unread)
		case "connection_failed":
			line += fmt.Sprint(" ", d.Reason, " ", d.bits())
		default:
			t.Fatalf("unknown event %s", e.Name)
		}
		want[e.Name] = append(want[e.Name], line)
	}
	got := byName(whats(told))
	before := byName(whats(r.before(told, begin, sameMoment)))
	for name, lines := range before {
		if want[name] == nil {
			t.Errorf("%s: events %q, which the recorded one had not", side, lines)
		}
	}
	for name, w := range want {
		got[name] = got[name][:max(min(len(got[name]), len(w)), len(before[name]))]
		if side == "server" { // several clients have no order
			slices.Sort(got[name])
			slices.Sort(w)
		}
		if !slices.Equal(got[name], w) {
			t.Errorf("%s: events %v\nwant %v", side, got[name], w)
		}
	}
}

// byName sorts lines by their first words.
func byName(lines []string) map[string][]string {
	m := make(map[string][]string)
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		m[name] = append(m[name], line)
	}
	return m
}

// bits is the size of the data. Behind a reason that has none, 4 are padding.
func (d recordedData) bits() int {
	if d.Reason != "kicked" && d.Reason != "Custom" {
		return 0
	}
	return d.DataBits
}

// reasonText translates a reason. What releases up to 2.2.0 send when they stop
// means nothing to themselves.
func reasonText(s string) string {
	if s == "unknown_80" {
		s = "server_stopped"
	}
	return strings.ReplaceAll(s, "_", " ")
}
