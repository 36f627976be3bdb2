//go:build linux && !386 && !amd64

package socket

import "syscall"

// Numbers of system calls.
const (
	sysSendto     = syscall.SYS_SENDTO
	sysSendmsg    = syscall.SYS_SENDMSG
	sysRecvmsg    = syscall.SYS_RECVMSG
	sysSendmmsg   = syscall.SYS_SENDMMSG
	sysGetsockopt = syscall.SYS_GETSOCKOPT
)
