package main

// A target is a package whose source is changed.
type target struct {
	dir string // from the root of the repository, with slashes
	// files are those that are changed: all if nil.
	files []string
	// beside are packages whose tests run as well, where the package's own have
	// noticed nothing.
	beside []string
	// slow are tests that are left out unless they are asked for: they take seconds.
	slow string // a regular expression
}

// targets are the cores, and what connections and listeners are built from. The
// files of a core are those that internal/repotest marks, less those that hold
// nothing but declarations.
var targets = []target{
	{dir: "reliable", slow: "^Test(CompactChangesNoVerdict|FateOfFixedWindows|JumpGuardLateDuplicate|JumpGuardGap|LossOfSilence|FullSpeed|NoAllocation)$"},
	{dir: "internal/recording", beside: []string{"capture"}},
	{dir: "internal/seq", beside: []string{"reliable"}},
	{dir: "internal/inbox", beside: []string{"internal/stacktest", "netcode"}},
	{dir: "internal/outbox", beside: []string{"internal/stacktest", "netcode"}},
	{dir: "internal/netconn", beside: []string{"netcode", "internal/stacktest"}},
	{dir: "internal/listen", beside: []string{"netcode", "internal/stacktest"}},
	{dir: "internal/datagram", beside: []string{"netcode", "internal/stacktest"}},
	{dir: "netcode", files: []string{
		"client.go", "server.go", "server_handshake.go", "handshakes.go", "history.go", "slots.go",
		"session.go", "halves.go", "replay.go", "cipher.go", "challenge.go", "private.go", "request.go",
	}},
	{dir: "porous/internal/core", slow: "^Test(Fairness.*|Figures|R11.*|R16NoAllocation|ConstantsOfOthers|SessionBottleneck)$"},
	{dir: "riptide", slow: "^Test(SpoofedConnects|Wraparound|LossyServer)$", files: []string{
		"layout.go", "message.go", "values.go", "slices.go", "reasons.go", "stats.go",
		"packet.go", "layouts.go", "history.go", "rtt.go", "sender.go", "notify.go", "quality.go",
		"connection.go", "receive.go", "recent.go", "lobby.go",
	}},
	{dir: "netplay", files: []string{
		"access.go", "codec.go", "compile.go", "compress.go", "decode.go", "encode.go", "frame.go", "marshal.go", "plan.go",
	}},
}

func targetNames() (names []string) {
	for _, t := range targets {
		names = append(names, t.dir)
	}
	return names
}
