package netnstest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// A Namespace is another network namespace, beside that of the test. It ends with the test.
type Namespace struct {
	ID    int // that of a thread in it, for "ip link set NAME netns ID"
	calls chan func()
	done  chan error
}

// New makes a Namespace. The test must run [Inside] one already.
func New(t *testing.T) *Namespace {
	t.Helper()
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip(notRun, err)
	}
	n := &Namespace{calls: make(chan func()), done: make(chan error)}
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, because nothing unlocks it
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		n.ID = syscall.Gettid()
		n.done <- err
		for f := range n.calls {
			f()
			n.done <- nil
		}
	}()
	t.Cleanup(func() { close(n.calls) })
	if err := <-n.done; err != nil {
		t.Skip(notRun, "no namespaces: ", err)
	}
	return n
}

// Run calls f on a thread of the Namespace: the sockets that f makes are there. It must not end
// the test.
func (n *Namespace) Run(f func()) {
	n.calls <- f
	<-n.done
}

// Do is [Do] there.
func (n *Namespace) Do(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		Do(t, fmt.Sprintf("nsenter --net=/proc/%d/task/%d/ns/net %s", os.Getpid(), n.ID, c))
	}
}
