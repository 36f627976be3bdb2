// Package netcode implements the netcode 1.02 protocol: secure sessions between
// clients and dedicated servers over UDP. It is compatible on the wire with the C
// library and other implementations of NETCODE 1.02.
//
// A backend that knows its users gives each of them a connect [Token] over a secure
// channel such as HTTPS. The token lists servers and holds the keys of one session. A
// part of it is sealed under a private key of the backend and the servers, and tells
// the server the client's id. A request, a challenge and a response prove the client's
// address before the server keeps a session for it. From then on every packet is sealed
// with ChaCha20-Poly1305 and checked against a replay window.
//
// Sessions are unreliable and unordered: each Write sends one datagram of 1 to
// [MaxMessageSize] bytes, which arrives whole, at most once, or never. Put a volley.Conn
// on top for larger messages, acknowledgements and figures. Its method NetConn returns
// the session, and the session has the client's id and the backend's data for the
// server: [Conn.ClientID] and [Conn.UserData].
//
// # Rules beyond the C library
//
// A connect token admits one session. Then neither the same nor another address can use
// it again, and a server that has just started refuses tokens that may have been used
// before its start. These are the rules of the standard since September 2026. See
// docs/netcode.md for the trust model and for the lifetime of tokens.
package netcode
