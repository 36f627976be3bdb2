//go:build !windows && !plan9

package socket

import "syscall"

// refusedErrnos say that nobody listens on the other side's port.
var refusedErrnos = []syscall.Errno{syscall.ECONNREFUSED}
