// Package netcode implements the netcode 1.02 protocol: secure sessions
// between clients and dedicated servers over UDP, compatible on the wire with
// the C library and everything else that speaks NETCODE 1.02.
//
// A backend that knows its users hands each of them a connect [Token] over a
// secure channel such as HTTPS. The token says which servers to try and holds
// the keys of one session; a part of it, sealed under a private key that only
// the backend and the servers know, tells the server who is coming. A request,
// a challenge and a response prove the client's address before the server
// keeps any session for it. From then on every packet is sealed with
// ChaCha20-Poly1305 and checked against a replay window.
//
// Sessions are unreliable and unordered: a Write is one datagram of 1 to
// [MaxPayload] bytes, which arrives whole, once, or not at all. Stack a
// volley.Conn on top for larger messages, acknowledgements and figures.
//
// # Who it is
//
// A server learns from [Conn.ClientID] and [Conn.UserData] who the backend says
// that the client is. A connection on top of a session leads to it by its method
// NetConn, as a tls.Conn does to what is below:
//
//	ln := volley.NewListener(sessions, nil)
//	c, err := ln.Accept()
//	session := c.(*volley.Conn).NetConn().(*netcode.Conn)
//	id, userData := session.ClientID(), session.UserData()
//
// # Rules beyond the C library
//
// A connect token admits one session. Once its session is accepted the token
// is consumed: neither the same nor another address can use it again, and a
// server that has just started refuses tokens which may have been used before
// its start. These are the rules of the standard since September 2026. See
// docs/netcode.md for the trust model and for how to set token lifetimes.
package netcode
