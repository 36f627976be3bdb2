// Package riptide speaks the protocol of Riptide Networking, a C# library that
// is mostly used with Unity: a [Server] in Go for its clients, a [Client] for its
// servers, and both for each other, over UDP, TCP, or both at once.
//
//	s := &riptide.Server{MaxClients: 64}
//	riptide.Handle(s, 1, func(p *riptide.Peer, m *riptide.Message) error {
//		name := m.String()
//		if err := m.Err(); err != nil { // one check after all fields
//			return err
//		}
//		out := riptide.NewMessage(riptide.Reliable, 2)
//		out.AddUint16(p.ID())
//		out.AddString(name)
//		return s.SendAllBut(p, out)
//	})
//	log.Fatal(s.ListenAndServe("udp", ":7777"))
//
// A [Message] has a [Mode] of delivery, an id by which its handler is found, and
// values, which must be read as they were added, for nothing in it tells their
// types. [Reliable] messages arrive exactly once, but in any order, [Notify]
// messages of the packed layout at most once, and [Unreliable] ones as often as
// the network delivers them.
//
// The format is that of the releases 2.1.0 to 2.2.1 of the C# library, or, with
// [Notes], the layout of whole bytes that the notes on Riptide describe. There is
// no authentication and no encryption; sessions of package netcode can be put
// below. The document docs/riptide.md describes the wire, and what differs from
// the C# library.
package riptide
