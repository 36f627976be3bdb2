package socket

import "syscall"

// goneErrnos say that a socket is gone, or leads nowhere for good, by codes of
// Winsock or of the system, or those that package syscall has made up, which
// connections of others may return.
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
