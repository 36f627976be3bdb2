package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
)

// A record is the result of a run in the file of option -results, by which a
// report is made of several calls.
type record struct {
	Mode            string
	Size, Processes int
	Style           string
	Clients, Rate   int
	Peer            string
	Result          *result
}

func (r *record) measurement() measurement {
	return measurement{r.Mode, r.Size, r.Processes, load{r.Style, r.Clients, r.Rate}}
}

// loadTally returns the results in a file, if there is one, and what they are of.
func loadTally(file string) (tally, []measurement, error) {
	t := make(tally)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	var records []record
	if err := json.Unmarshal(text, &records); err != nil {
		return nil, nil, err
	}
	var plan []measurement
	for _, r := range records {
		m := r.measurement()
		if t[m] == nil {
			t[m] = make(map[string][]*result)
			plan = append(plan, m)
		}
		t[m][r.Peer] = append(t[m][r.Peer], r.Result)
	}
	return t, plan, nil
}

// save writes the results of a plan to a file.
func (t tally) save(file string, plan []measurement) error {
	var records []record
	for _, m := range plan {
		for _, p := range peers {
			for _, r := range t[m][p.name] {
				records = append(records, record{m.mode, m.size, m.processes, m.load.style, m.load.clients, m.load.rate, p.name, r})
			}
		}
	}
	text, err := json.Marshal(records)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// joinPlans returns what is in either plan, without repetition.
func joinPlans(a, b []measurement) []measurement {
	joined := slices.Clone(a)
	for _, m := range b {
		if !slices.Contains(joined, m) {
			joined = append(joined, m)
		}
	}
	return joined
}

// rounds returns how many runs the peers of a mode have had.
func (r *report) rounds(mode string) (n int) {
	for _, m := range r.measurements(mode) {
		for _, rs := range r.tally[m] {
			n = max(n, len(rs))
		}
	}
	return n
}
