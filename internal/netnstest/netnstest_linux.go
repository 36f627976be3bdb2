package netnstest

import (
	"flag"
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

// Inside reports whether the test runs in a process of its own, as root in new user and
// network namespaces. Otherwise it starts that process with the same test, waits, and
// returns false. Without namespaces or the given commands, it skips the test.
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
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10m")
	if f := flag.Lookup("full"); f != nil {
		cmd.Args = append(cmd.Args, "-full="+f.Value.String())
	}
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
	} else {
		t.Log(out.String())
	}
	return false
}

// lacks are words of ip, tc, nft and conntrack where a permission or a part of the kernel is missing.
var lacks = []string{"not permitted", "not supported", "Permission denied", "Unknown device type", "qdisc kind is unknown", "IPv6 is disabled", "Could not process rule", "Can't open handler"}

// Do runs commands. The first failure ends the test, or skips it if the system lacks something.
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
