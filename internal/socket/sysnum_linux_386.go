package socket

// Numbers of system calls; those of sockets exist since Linux 4.3.
const (
	sysSendto     = 369
	sysSendmsg    = 370
	sysRecvmsg    = 372
	sysSendmmsg   = 345
	sysGetsockopt = 365
)
