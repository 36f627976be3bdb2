package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runMain has the test binary be the program itself, with its signals and exit
// statuses.
const runMain = "VOLLEY_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// longest is how long a program may take that runs into no wait, and how long one
// that runs may take for its next line.
const longest = 60 * time.Second

// newProgram returns the program with arguments, which ends with the test at the
// latest.
func newProgram(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), runMain+"=1", "LC_ALL=C.UTF-8")
	return cmd
}

// program runs the program to its end.
func program(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := newProgram(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer killLater(cmd)()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// A running program of which lines are read.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr bytes.Buffer
	output strings.Builder // all lines so far
}

// start starts the program, which is stopped at the end of the test.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: newProgram(t, args...)}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stderr = &r.stderr
	r.lines = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	return r
}

// killLater ends a program that takes too long, unless the returned function is
// called before.
func killLater(cmd *exec.Cmd) (stop func() bool) {
	return time.AfterFunc(longest, func() { cmd.Process.Kill() }).Stop
}

// line returns the next line that contains the text.
func (r *running) line(text string) string {
	r.t.Helper()
	defer killLater(r.cmd)()
	for {
		line, err := r.lines.ReadString('\n')
		r.output.WriteString(line)
		if err != nil {
			r.t.Fatalf("no line with %q: %v; output:\n%s", text, err, &r.output)
		}
		if strings.Contains(line, text) {
			return line
		}
	}
}

// interrupt ends the program as Ctrl-C does, and returns what it has come to.
func (r *running) interrupt() outcome {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		r.t.Fatal(err)
	}
	return r.wait()
}

// wait waits for the end of the program.
func (r *running) wait() outcome {
	r.t.Helper()
	defer killLater(r.cmd)()
	rest, err := io.ReadAll(r.lines)
	if err != nil {
		r.t.Fatal(err)
	}
	r.output.Write(rest)
	r.cmd.Wait()
	return outcome{r.cmd.ProcessState.ExitCode(), r.output.String(), r.stderr.String()}
}

// serving starts serve on a free port of loopback, and returns its address.
func serving(t *testing.T, args ...string) (server *running, address string) {
	t.Helper()
	server = start(t, append([]string{"serve", "127.0.0.1:0"}, args...)...)
	_, rest, _ := strings.Cut(server.line("listening on "), "listening on ")
	address, _, _ = strings.Cut(rest, ",")
	return server, address
}
