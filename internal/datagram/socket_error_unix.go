//go:build !windows && !plan9

package datagram

import "syscall"

// transientErrnos are the errors that IsTransient accepts.
var transientErrnos = []syscall.Errno{
	syscall.ECONNREFUSED,
	syscall.ECONNRESET,
	syscall.EHOSTUNREACH,
	syscall.EHOSTDOWN,
	syscall.ENETUNREACH,
	syscall.ENETDOWN,
	syscall.ENETRESET,
	syscall.EADDRNOTAVAIL, // our own address has just gone
	syscall.EMSGSIZE,
	syscall.ENOBUFS,
	syscall.ENOMEM,
	syscall.EAGAIN,
	syscall.EINTR,
	syscall.EPERM, // a packet filter's verdict
	syscall.EACCES,
}
