//go:build unix

package main

import "syscall"

// stop has a process stand still, until goOn.
func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) goOn() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
