//go:build !windows && !plan9

package socket

import "syscall"

// goneErrnos say that a socket is gone.
var goneErrnos = []syscall.Errno{
	syscall.EBADF,
	syscall.ENOTSOCK,
	syscall.EPIPE,     // shut down for writing
	syscall.ESHUTDOWN, // the same on some systems
	syscall.ENOTCONN,  // a Unix socket whose peer is gone; a socket that iOS has taken away
	syscall.ENOSYS,    // the system has no such call
}

// refusedErrnos say that nobody listens on the other side's port.
var refusedErrnos = []syscall.Errno{syscall.ECONNREFUSED}
