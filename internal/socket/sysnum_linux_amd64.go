package socket

import "syscall"

// Numbers of system calls.
const (
	sysSendto     = syscall.SYS_SENDTO
	sysSendmsg    = syscall.SYS_SENDMSG
	sysRecvmsg    = syscall.SYS_RECVMSG
	sysSendmmsg   = 307
	sysGetsockopt = syscall.SYS_GETSOCKOPT
)
