// Package world tests the library in hostile worlds. Each is a network in memory, in
// virtual time, on which hosts run whole stacks while faults happen to them:
//
//	go test ./bench/world -run World -seed 7 -for 1h
//
// That runs worlds until an hour of virtual time is over, or the wall time of -wall. A seed
// decides everything about a world: its hosts and links, how many faults happen and which,
// and each choice of the applications. So some worlds are mild, and some are mad. The
// seed does not decide in which order the runtime runs goroutines, but whatever the library
// draws at random.
//
// The applications check what the library promises:
//
//   - A message arrives intact, from the right peer, and at most once.
//   - A message has exactly one fate, in time. No fate says Delivered of a message that did
//     not arrive. A message that arrived may be called Lost if something was lost or the
//     connection ended; that is counted.
//   - Order is kept where that is promised, and the end comes after all data.
//   - Calls keep their deadlines, and connections end for a reason only: each error needs its
//     own, such as a close of this very connection by the peer.
//   - After the faults each connection carries messages again, in both directions.
//   - Memory stays within its limits, and nothing is left behind.
//   - The captures of connections replay exactly.
//
// Each world runs in a process of its own, so that a crash, a deadlock or an endless loop
// is found as well. When a world fails, it runs again with fewer and fewer faults. The
// test prints the seed and the shortest list of faults that still fails.
//
// A run ends with the sum of its figures: worlds, their time, datagrams, and for how many years
// connections have lived. With -tally file, the sums of all runs are kept in a file.
//
// The wall clock does not matter. With -run Clock -clock the library is compiled with another
// clock, whose wall time is set while worlds live: an hour ahead or back, or back by a
// nanosecond, or it stands. Only the monotonic clock goes on, a nanosecond back now and then.
//
// -run Planted -planted plants bugs into the library. A world finds each within two minutes,
// and finds it again in nine of ten runs.
//
// With WORLD_DEBUG=1 in the environment, a world that fails prints the life of its
// connections and each datagram; WORLD_HEAP=file has it write a profile of the heap when
// that is too large.
package world
