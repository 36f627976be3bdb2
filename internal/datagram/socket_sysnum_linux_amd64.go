package datagram

import "syscall"

// Numbers of system calls.
const (
	sysSendmsg    = syscall.SYS_SENDMSG
	sysRecvmsg    = syscall.SYS_RECVMSG
	sysSendmmsg   = 307
	sysGetsockopt = syscall.SYS_GETSOCKOPT
)
