package main

import (
	"fmt"
	"strings"
)

// The messages of the protocol's public page, and one of about 2 KB.
type (
	chat struct {
		Sender  string `netplay:"0"`
		Message string `netplay:"1"`
	}
	friends struct {
		Names []string `netplay:"0"`
	}
	player struct {
		ID     int32   `netplay:"0"`
		Name   string  `netplay:"1"`
		Health float32 `netplay:"2"`
	}
	state struct {
		Tick    int64     `netplay:"0"`
		Players []*entity `netplay:"1"`
		Scores  []int32   `netplay:"2"`
		Map     string    `netplay:"3"`
		Paused  bool      `netplay:"4"`
	}
	entity struct {
		ID       int32   `netplay:"0"`
		Name     string  `netplay:"1"`
		Position *vector `netplay:"2"`
		Velocity *vector `netplay:"3"`
		Health   float32 `netplay:"4"`
		Team     int8    `netplay:"5"`
		Alive    bool    `netplay:"6"`
	}
	vector struct {
		X float32 `netplay:"0"`
		Y float32 `netplay:"1"`
		Z float32 `netplay:"2"`
	}
)

func newState() *state {
	s := &state{Tick: 123456789, Map: strings.Repeat("forest ", 10)}
	for i := range int32(30) {
		s.Players = append(s.Players, &entity{
			ID:       i,
			Name:     fmt.Sprint("player ", i),
			Position: &vector{1.5, float32(i), -3},
			Velocity: &vector{0.5, 0, float32(-i)},
			Health:   87.5,
			Team:     int8(i % 2),
			Alive:    true,
		})
		s.Scores = append(s.Scores, 100*i)
	}
	return s
}

// messages are what is measured.
var messages = []struct {
	name    string
	message byHand
	empty   func() byHand
}{
	{"chat", &chat{"John", "Hello, World"}, func() byHand { return new(chat) }},
	{"friend list", &friends{[]string{"Alice", "Bob", "Charlie"}}, func() byHand { return new(friends) }},
	{"player", &player{42, "John", 87.5}, func() byHand { return new(player) }},
	{"nested", newState(), func() byHand { return new(state) }},
}
