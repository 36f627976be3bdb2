package datagram

import "syscall"

// transientErrnos are the errors that IsTransient accepts. Windows reports
// ICMP messages by codes of Winsock or of the system, depending on the call.
var transientErrnos = []syscall.Errno{
	234,   // ERROR_MORE_DATA
	1231,  // ERROR_NETWORK_UNREACHABLE
	1232,  // ERROR_HOST_UNREACHABLE
	1234,  // ERROR_PORT_UNREACHABLE
	10013, // WSAEACCES
	10035, // WSAEWOULDBLOCK
	10040, // WSAEMSGSIZE
	10049, // WSAEADDRNOTAVAIL
	10050, // WSAENETDOWN
	10051, // WSAENETUNREACH
	10052, // WSAENETRESET
	10054, // WSAECONNRESET
	10055, // WSAENOBUFS
	10061, // WSAECONNREFUSED
	10064, // WSAEHOSTDOWN
	10065, // WSAEHOSTUNREACH
}
