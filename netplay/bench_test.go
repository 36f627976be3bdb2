package netplay_test

import (
	"fmt"
	"strings"
	"testing"

	"volley/netplay"
)

// The messages of the public page, and one of about 2 KB with nested structs.
type (
	benchPlayer struct {
		ID     int32   `netplay:"0"`
		Name   string  `netplay:"1"`
		Health float32 `netplay:"2"`
	}
	benchFriends struct {
		Names []string `netplay:"0"`
	}
	benchState struct {
		Tick    int64          `netplay:"0"`
		Players []*benchEntity `netplay:"1"`
		Scores  []int32        `netplay:"2"`
		Map     string         `netplay:"3"`
		Paused  bool           `netplay:"4"`
	}
	benchEntity struct {
		ID       int32        `netplay:"0"`
		Name     string       `netplay:"1"`
		Position *benchVector `netplay:"2"`
		Velocity *benchVector `netplay:"3"`
		Health   float32      `netplay:"4"`
		Team     int8         `netplay:"5"`
		Alive    bool         `netplay:"6"`
	}
	benchVector struct {
		X float32 `netplay:"0"`
		Y float32 `netplay:"1"`
		Z float32 `netplay:"2"`
	}
)

func newState() *benchState {
	s := &benchState{Tick: 123456789, Map: strings.Repeat("forest ", 10)}
	for i := range int32(30) {
		s.Players = append(s.Players, &benchEntity{
			ID:       i,
			Name:     fmt.Sprint("player ", i),
			Position: &benchVector{1.5, float32(i), -3},
			Velocity: &benchVector{0.5, 0, float32(-i)},
			Health:   87.5,
			Team:     int8(i % 2),
			Alive:    true,
		})
		s.Scores = append(s.Scores, 100*i)
	}
	return s
}

var benchMessages = []struct {
	name    string
	message any
	empty   func() any
}{
	{"chat", &chat{"John", "Hello, World"}, func() any { return new(chat) }},
	{"friends", &benchFriends{[]string{"Alice", "Bob", "Charlie"}}, func() any { return new(benchFriends) }},
	{"player", &benchPlayer{42, "John", 87.5}, func() any { return new(benchPlayer) }},
	{"nested", newState(), func() any { return new(benchState) }},
}

// The module bench compares these with code by hand and with other libraries.

func BenchmarkAppend(b *testing.B) {
	for _, m := range benchMessages {
		b.Run(m.name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = netplay.Append(buf[:0], m.message)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	for _, m := range benchMessages {
		body, err := netplay.Marshal(m.message)
		if err != nil {
			b.Fatal(err)
		}
		into := m.empty()
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := netplay.Unmarshal(body, into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
