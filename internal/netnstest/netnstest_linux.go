package netnstest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// variable marks the process inside.
const variable = "VOLLEY_NETNS_TEST"

// notRun begins the line by which the process inside says what it lacks.
const notRun = "NOT RUN: "

// Inside reports whether the calling test runs in a process of its own, as root
// in a user and a network namespace of its own. Otherwise it starts that
// process, which runs the same test, waits for it, and returns false: then the
// caller is done. Where the system allows no namespaces, or lacks one of the
// given commands, the test is skipped with the reason.
func Inside(t *testing.T, commands ...string) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			t.Skip(notRun, err)
		}
	}
	var out strings.Builder
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		t.Skip(notRun, "no namespaces: ", err)
	}
	err := cmd.Wait()
	if _, reason, found := strings.Cut(out.String(), notRun); found && err == nil {
		t.Skip(notRun, strings.TrimSpace(reason))
	}
	if err != nil {
		t.Errorf("in a namespace of its own: %v\n%s", err, out.String())
	} else if !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Errorf("in a namespace of its own, the test did not run:\n%s", out.String())
	}
	return false
}

// lacks are parts of what ip and tc say where a permission, or a part of the kernel,
// is missing: a kind of device or of queue, or IPv6.
var lacks = []string{"not permitted", "not supported", "Permission denied", "Unknown device type", "qdisc kind is unknown", "IPv6 is disabled"}

// Do runs commands, given as words separated by spaces. The first one that
// fails ends the test, as not run if it is for want of what the system may lack.
func Do(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		words := strings.Fields(c)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		switch {
		case err == nil:
		case slices.ContainsFunc(lacks, func(s string) bool { return strings.Contains(string(out), s) }):
			t.Skip(notRun, fmt.Sprintf("%s: %s", c, out))
		default:
			t.Fatalf("%s: %v: %s", c, err, out)
		}
	}
}
