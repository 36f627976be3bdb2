package riptide

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"volley/internal/vectors"
)

// The recorded sessions might have been recorded otherwise: with fewer attempts, over
// a longer way, or not as long. What is derived so of those that there are holds as
// well.
func TestOtherRecordings(t *testing.T) {
	fewer, farther := 0, 0
	for name, data := range vectors.Files(t, "riptide") {
		if !strings.HasPrefix(path.Base(name), "session_") {
			continue
		}
		v21 := versionOf(t, name)
		for i := range decodeFile[recording](t, data) {
			variant := func(what string, change func(*recording) bool) {
				r := &decodeFile[recording](t, data)[i]
				if !change(r) {
					return
				}
				t.Run(fmt.Sprint(name, "/", r.Name, "/", what), func(t *testing.T) { r.test(t, v21) })
			}
			variant("fewer attempts", func(r *recording) bool { ok := r.tryLess(3); fewer += count(ok); return ok })
			variant("farther", func(r *recording) bool { ok := r.closeFarther(12); farther += count(ok); return ok })
			for last := 1; last <= 4; last++ {
				variant(fmt.Sprint("without the last ", last), func(r *recording) bool { return r.cut(last) })
			}
		}
	}
	if os.Getenv(vectors.EnvDir) == "" && (fewer == 0 || farther == 0) {
		t.Errorf("%d sessions of fewer attempts, %d over a longer way", fewer, farther)
	}
}

func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// tryLess makes a client that gets no answer give up earlier. It reports false if
// there is none.
func (r *recording) tryLess(attempts int) bool {
	connects := r.sends("c2s", 1)
	if r.clients() != 1 || len(connects) <= attempts || slices.ContainsFunc(r.Log, func(e *recorded) bool { return e.Dir == "s2c" }) {
		return false
	}
	end := connects[attempts].T
	r.Log = slices.DeleteFunc(r.Log, func(e *recorded) bool { return e.Dir == "c2s" && e.T >= end })
	for _, e := range r.Log {
		switch e.Name {
		case "connect_called":
			e.Data.Attempts = attempts
		case "connection_failed":
			e.T = end
		}
	}
	return true
}

// closeFarther makes the last frame of each client take longer, and so all that
// follows from it. It reports false if no client has closed its stream.
func (r *recording) closeFarther(by float64) bool {
	for i, e := range r.Log {
		if e.Kind != "closed" || e.Dir != "c2s" {
			continue
		}
		frames := r.sends("c2s", e.Client)
		last := frames[len(frames)-1]
		if last.T > e.T || len(last.Deliver) == 0 {
			continue
		}
		for j := range last.Deliver {
			last.Deliver[j] += by
		}
		for _, later := range r.Log[i+1:] {
			later.T += by
			for j := range later.Deliver {
				later.Deliver[j] += by
			}
		}
		return true
	}
	return false
}

// cut leaves out the last entries. It reports false if one of them is a time-out, which
// the released library notices up to a second later.
func (r *recording) cut(last int) bool {
	n := len(r.Log) - last
	late := func(e *recorded) bool { return e.Data.Reason == "timed_out" }
	if n < 3 || slices.ContainsFunc(r.Log[n:], late) {
		return false
	}
	r.Log = r.Log[:n]
	return true
}

// Recordings that say how often a client was told to try are believed.
func TestRecordedAttempts(t *testing.T) {
	var r recording
	text := `{"log": [{"kind": "event", "side": "client2", "name": "connect_called", "data": {"attempts": 3}}]}`
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.attempts(1) != 0 || r.attempts(2) != 3 {
		t.Errorf("%d and %d attempts, want 0 and 3", r.attempts(1), r.attempts(2))
	}
}
