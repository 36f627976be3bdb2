package world

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/pprof"
	"time"
)

var (
	debug    = os.Getenv("WORLD_DEBUG") != "" // print what happens
	heapFile = os.Getenv("WORLD_HEAP")        // the file for a profile of the heap, when that is too large
)

func (b *book) trace(format string, args ...any) {
	if debug {
		fmt.Printf("%v: %s\n", b.now(), fmt.Sprintf(format, args...))
	}
}

// traceDatagram prints the beginning of a datagram that has arrived.
func traceDatagram(to net.Addr, from netip.AddrPort, b []byte) {
	if debug {
		fmt.Printf("%s %v to %v: %d bytes %x\n", time.Now().Format("15:04:05.000000"), from, to, len(b), b[:min(len(b), 30)])
	}
}

// dumpHeap writes a profile of the heap, once.
func (b *book) dumpHeap() {
	if heapFile == "" || b.dumped {
		return
	}
	b.dumped = true
	f, err := os.Create(heapFile)
	if err != nil {
		b.fail("%v", err)
		return
	}
	defer f.Close()
	pprof.WriteHeapProfile(f)
}
