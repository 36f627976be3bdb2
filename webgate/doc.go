// Package webgate lets browsers join a server of package volley. A [Gate] is a
// net.Listener of datagram connections over WebTransport, and [volley.NewListener] makes
// a [volley.Listener] of it:
//
//	gate, err := webgate.Listen(":7443", &webgate.Config{
//		Certificate: cert,
//		Origins:     []string{"https://play.example"},
//		Authorize:   func(r *http.Request) (any, error) { return player(r.FormValue("ticket")) },
//	})
//	ln, err := volley.NewListener(gate, nil)
//
// The page imports js/volley.js, one file without dependencies, which [Script] holds too:
//
//	import { dial } from "./volley.js"
//	const c = await dial("https://play.example:7443/join", { ticket })
//	c.onmessage = bytes => …
//	const receipt = await c.send(bytes)
//
// Where a browser has no WebTransport, or no UDP passes, the same script speaks over a
// WebSocket to the TCP port of the same number. Then nothing is lost or overtaken below
// volley, and a lost packet delays all that follow.
//
// # Who gets in
//
// A request must pass these checks in order, before a session takes memory:
//
//   - its path is [Config].Path;
//   - its Origin header, which every browser sends, is in [Config].Origins;
//   - there are fewer than [Config].MaxSessions;
//   - [Config].Authorize returns no error.
//
// # Limits
//
// Memory for one session is bounded: about 128 KiB wait for a slow client, of which the
// oldest datagrams are dropped first, and streams that a page opens are refused.
// [Gate.Stats] counts both. A WebSocket that takes nothing for ten seconds is closed.
package webgate
