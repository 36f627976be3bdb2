//go:build linux || darwin || freebsd

package main

import (
	"os/exec"
	"syscall"
)

// maxMemory is what a mutant that asks for memory without end gets.
const maxMemory = 4 << 30

// confine keeps the processes of a command together, so that they end together,
// and limits their memory, which is that of this process, too.
func confine(cmd *exec.Cmd) {
	limit := syscall.Rlimit{Cur: maxMemory, Max: maxMemory}
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &limit) // best effort: it is one already the second time
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
