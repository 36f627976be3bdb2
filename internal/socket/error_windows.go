package socket

import "syscall"

// goneErrnos say that a socket is gone, in the codes of Winsock and package syscall.
var goneErrnos = []syscall.Errno{
	6,     // ERROR_INVALID_HANDLE
	10009, // WSAEBADF
	10038, // WSAENOTSOCK
	10057, // WSAENOTCONN
	10058, // WSAESHUTDOWN
	10093, // WSANOTINITIALISED
	syscall.EBADF,
	syscall.ENOTSOCK,
	syscall.EPIPE,
	syscall.ESHUTDOWN,
	syscall.ENOTCONN,
}

// refusedErrnos say that nobody listens on the other side's port.
var refusedErrnos = []syscall.Errno{
	1234,                 // ERROR_PORT_UNREACHABLE
	10054,                // WSAECONNRESET
	10061,                // WSAECONNREFUSED
	syscall.ECONNREFUSED, // made up by package syscall: connections of others may return it
}
