package socket

// Numbers of system calls; those of the socket calls proper exist since
// Linux 4.3, below UDP_SEGMENT's 4.18.
const (
	sysSendto     = 369
	sysSendmsg    = 370
	sysRecvmsg    = 372
	sysSendmmsg   = 345
	sysGetsockopt = 365
)
