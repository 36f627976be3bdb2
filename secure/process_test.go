package secure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// processVariable has the name and the arguments of what a process does in place of tests, so
// that a test can tell its own memory, descriptors and processor time from those of clients.
const processVariable = "VOLLEY_SECURE_PROCESS"

// processes are what such a process can do. It reports by lines, and ends at the latest when its
// standard input does.
var processes = map[string]func(args []string){}

// must ends a process that cannot go on.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// runProcess does what the environment says, and reports whether that is anything.
func runProcess() bool {
	args := strings.Fields(os.Getenv(processVariable))
	if len(args) == 0 {
		return false
	}
	processes[args[0]](args[1:])
	return true
}

// A process does its work beside a test.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

// start starts a process, which lives for a minute or two at most.
func start(t testing.TB, args ...any) *process {
	p := prepare(t, args...)
	require.NoError(t, p.cmd.Start())
	return p
}

// prepare is start for a caller that starts the process.
func prepare(t testing.TB, args ...any) *process {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), processVariable+"="+strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	return &process{cmd, stdin, bufio.NewScanner(stdout)}
}

// line returns the next line that the process prints.
func (p *process) line(t testing.TB) string {
	require.True(t, p.out.Scan(), "the process has ended")
	return p.out.Text()
}

// scan reads values off the next line.
func (p *process) scan(t testing.TB, values ...any) {
	_, err := fmt.Sscan(p.line(t), values...)
	require.NoError(t, err)
}

// end lets the process end, and waits for it.
func (p *process) end(t testing.TB) {
	p.stdin.Close()
	require.NoError(t, p.cmd.Wait())
}

// untilEnd waits until the test lets the process end.
func untilEnd() { io.Copy(io.Discard, os.Stdin) }
