// Package capture records what goes into the protocol cores of connections, so
// that a bug can be replayed from a file.
//
// The state of a connection of this module is that of a core, which has no clock,
// no random numbers and no goroutine. Its answers follow from its datagrams, the calls
// of the application, and the times of both. A [Recorder] keeps these and the answers.
// A replay gives the same to a fresh core, which must answer the same. The first call
// whose answers differ is a divergence. So a report of a bug carries its own
// reproduction.
//
// A Recorder is a field of the protocols' Config (volley.Config.Capture) and may
// serve any number of connections. It holds at most Config.MaxBytes in memory:
// the beginning, or with Config.Ring the newest. WriteTo writes that out at any
// time, as a flight recorder does. With Config.Output it is written as it comes.
//
// Replays are functions of the protocols, such as volley.Replay and porous.Replay. The
// command volley replay runs them, and volley capture turns a capture into pcapng.
// [Reader] reads captures, for tools. A version of this module may acknowledge at
// other times than the one before, and then a replay of an older capture diverges.
// Replay with the version that made the capture, which is [Header].Library.
//
// # Privacy
//
// A capture contains the messages of the application, and the addresses of its
// peers. Messages of secured connections are in it as plain text, because they are
// recorded above the session. Config.OmitPayload leaves messages out, if the core
// does not look into them; their sizes and times stay. A message of more than 64 KiB
// is kept as zeros, in a share of 1 to 4096, so that nobody can claim sizes for
// nothing.
package capture
