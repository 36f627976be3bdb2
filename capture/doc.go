// Package capture records what goes into the protocol cores of connections, so
// that a bug can be replayed from a file.
//
// The state of a connection of this module is that of a core, which has no clock,
// no random numbers and no goroutine: what it does follows from the datagrams it
// is given, the calls of the application, and the times of both. A [Recorder]
// keeps these and what the core answered. A fresh core that is given the same
// must answer the same: that is a replay, and where it answers otherwise is the
// first divergence. So a report of a bug carries its own reproduction.
//
// A Recorder is a field of the protocols' Config (volley.Config.Capture) and may
// serve any number of connections. It holds at most Config.MaxBytes in memory:
// the beginning, or with Config.Ring the newest. WriteTo writes that out at any
// time, as a flight recorder does. With Config.Output it is written as it comes.
//
// Replays are functions of the protocols, such as volley.Replay and porous.Replay, and a command,
// volley replay. [Reader] reads captures, for tools; volley capture turns one into
// pcapng.
//
// # Privacy
//
// A capture contains the messages of the application, and the addresses of its
// peers. Of secured connections it has what the layer above the session sees, which
// is plain text. With Config.OmitPayload the messages are left out, where the core
// does not look into them; their sizes and times stay. A message of more than 64 KiB
// is kept as zeros, in a share of 1 to 4096, so that nobody can claim sizes for
// nothing.
package capture
