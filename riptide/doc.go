// Package riptide speaks the protocol of Riptide Networking, a C# library that
// is mostly used with Unity. It has a [Server] in Go for C# clients and a [Client]
// for C# servers, over UDP, TCP, or both at once.
//
//	s := &riptide.Server{MaxClients: 64}
//	s.Handle(1, func(p *riptide.Peer, m *riptide.Message) error {
//		name := m.ReadString()
//		if err := m.Err(); err != nil { // one check after all fields
//			return err
//		}
//		out := riptide.NewMessage(riptide.Reliable, 2)
//		riptide.Add(out, p.ID())
//		out.AddString(name)
//		return s.SendAll(out, p) // to all but p
//	})
//	log.Fatal(s.ListenAndServe("udp", ":7777"))
//
// Server and Client are used like the Server of net/http, and like their namesakes
// in C#. A message, the end of a client and the fate of a message each call a
// function, so there is nothing to Read, and no Dialer or Listener.
//
// A [Message] has a [Mode] of delivery, an id that selects its handler, and values.
// It does not say which types these have, so the receiver must know. [Reliable]
// messages arrive exactly once, but in any order, [Notify] messages at most once,
// and [Unreliable] ones as often as the network delivers them.
//
// The format is that of the releases 2.1.0 to 2.2.1 of the C# library, or, with
// [Config.NotesLayout], the one that the notes on Riptide describe. There is no
// authentication and no encryption; package netcode can add them. The document
// docs/riptide.md describes the wire and the differences from the C# library.
package riptide
