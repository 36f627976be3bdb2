package world

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"volley/internal/testenv"
)

// Two worlds of a seed have the same schedule, to the byte, and other seeds have others.
func TestScheduleFollowsSeed(t *testing.T) {
	seen := make(map[string]uint64)
	for seed := range uint64(3) {
		p := newPlan(seed + 10)
		p.span = min(p.span, 3*time.Minute)
		_, first := runWorld(t, p)
		_, second := runWorld(t, p)
		if first != second {
			t.Errorf("two worlds of seed %d differ:\n%s\n%s", seed, first, second)
		}
		if other, ok := seen[first]; ok {
			t.Errorf("seeds %d and %d have the same schedule", seed, other)
		}
		seen[first] = seed
	}
}

// The plan of a seed is always the same, and without some faults all else stays.
func TestPlanFollowsSeed(t *testing.T) {
	for seed := range testenv.Raced[uint64](100, 10) {
		p := newPlan(seed)
		if q := newPlan(seed); fmt.Sprint(p, p.faults, p.clients) != fmt.Sprint(q, q.faults, q.clients) {
			t.Fatalf("seed %d has two plans", seed)
		}
		for i := range p.faults {
			if f := p.faults[i]; f.at+f.lasts > p.span-margin && f.at > 0 {
				t.Fatalf("seed %d: %s ends after %v", seed, f.describe(p), p.span-margin)
			}
		}
		if len(p.faults) > 1 {
			if q := p.keep([]int{1}); len(q.faults) != 1 || q.faults[0] != p.faults[1] {
				t.Fatalf("seed %d: another fault is kept", seed)
			}
		}
	}
}

// The shortest list of faults has those that are needed together, and no other.
func TestShorten(t *testing.T) {
	list := make([]int, 100)
	for i := range list {
		list[i] = i
	}
	for _, want := range [][]int{nil, {0}, {99}, {7, 50}, {1, 2, 3, 98}} {
		runs := 0
		got := shorten(list, func(some []int) bool {
			runs++
			for _, w := range want {
				if !slices.Contains(some, w) {
					return false
				}
			}
			return true
		})
		if !slices.Equal(got, want) || runs > 120 {
			t.Errorf("shorten = %v after %d runs, want %v", got, runs, want)
		}
	}
}
