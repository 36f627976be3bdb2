//go:build !windows && !plan9

package datagram

import "syscall"

// refusedErrnos say that nobody listens on the other side's port.
var refusedErrnos = []syscall.Errno{syscall.ECONNREFUSED}
