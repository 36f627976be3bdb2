// Package secure makes encrypted sessions over UDP from one URL, which holds the
// fingerprint of the server's key. There is no certificate authority, and no backend:
//
//	ln, err := secure.Listen("udp", ":7777", &secure.ListenConfig{KeyFile: "server.key"})
//	fmt.Println(ln.URL("game.example")) // volley://game.example:7777#k7q3f…
//
//	c, err := secure.Dial(ctx, "volley://game.example:7777#k7q3f…")
//
// TLS 1.3 proves the server and hands out a connect token, over TCP at the same port.
// Package netcode carries the sealed packets. The keys that seal tokens are random, change
// each minute, and live in the server's process only. So a session that was recorded stays
// secret when the key file is stolen later.
//
// A session is a net.Conn of messages of at most 1199 bytes, which may be lost. Put
// volley.NewConn, or another protocol, on top of it.
//
// ListenConfig.Authorize decides who may come. A backend that knows the clients mounts a
// TokenHandler, and its clients dial https URLs.
//
// The document docs/secure.md says what a session protects and what it does not.
package secure
