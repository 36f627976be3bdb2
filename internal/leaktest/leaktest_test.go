package leaktest

import (
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestLeaked(t *testing.T) {
	stop := make(chan struct{})
	started := make(chan struct{})
	go func() { close(started); <-stop }()
	<-started
	if stacks := leaked(0); !strings.Contains(stacks, "TestLeaked.func1") {
		t.Errorf("leaked does not find a goroutine that waits:\n%s", stacks)
	}
	close(stop)
}
