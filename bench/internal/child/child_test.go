package child

import (
	"fmt"
	"os"
	"testing"
)

const env = "VOLLEY_CHILD_TEST"

func TestMain(m *testing.M) {
	name := os.Getenv(env)
	if name == "" {
		os.Exit(m.Run())
	}
	if name == "mute" {
		os.Exit(3)
	}
	marks := 0
	if err := Serve(os.Stdin, os.Stdout, name, func() any { marks++; return marks }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestServer(t *testing.T) {
	var hello string
	s, err := Start(env+"=a name", &hello)
	if err != nil {
		t.Fatal(err)
	}
	if hello != "a name" {
		t.Errorf("the server says %q first, want %q", hello, "a name")
	}
	for want := 1; want <= 3; want++ {
		var m int
		if err := s.Mark(&m); err != nil || m != want {
			t.Errorf("mark %d, %v, want %d", m, err, want)
		}
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

func TestServerThatFails(t *testing.T) {
	if _, err := Start(env+"=mute", new(string)); err == nil {
		t.Error("Start found no error in a server that says nothing")
	}
}
