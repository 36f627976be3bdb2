package socket

import "syscall"

// refusedErrnos say that nobody listens on the other side's port.
var refusedErrnos = []syscall.Errno{
	1234,                 // ERROR_PORT_UNREACHABLE
	10054,                // WSAECONNRESET
	10061,                // WSAECONNREFUSED
	syscall.ECONNREFUSED, // made up by package syscall: connections of others may return it
}
