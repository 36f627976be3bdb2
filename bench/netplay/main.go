// Command netplay compares package netplay with other ways to turn structs into
// bytes, and tries a server with clients that never read. It writes its section
// of docs/BENCHMARKS.md:
//
//	go run ./bench/netplay
//	go run ./bench/netplay -out "" -quick
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"volley/bench/internal/section"
)

func main() {
	rounds := flag.Int("rounds", 101, "`number` of rounds in which all codecs take turns")
	length := flag.Duration("length", time.Millisecond, "`time` of one measurement")
	clients := flag.Int("clients", 1000, "`number` of clients of the server, of which a tenth never reads; 0 leaves that out")
	period := flag.Duration("period", 10*time.Second, "`time` of one run of the server")
	pairs := flag.Int("pairs", 3, "`number` of runs of the server with slow readers, and as many without")
	quick := flag.Bool("quick", false, "a glance")
	out := flag.String("out", "docs/BENCHMARKS.md", "`file` whose section Netplay is written; \"\": print it")
	flag.Parse()
	if *quick {
		*rounds, *clients, *period, *pairs = 5, 100, 2*time.Second, 1
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## Netplay\n\n*%s, %s, %d processors, %s/%s; `go run ./bench/netplay`.*\n\n",
		time.Now().Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	exitOn(compareCodecs(&b, *rounds, *length))
	if *clients > 0 {
		exitOn(trySlowReaders(&b, *clients, *period, *pairs))
	}
	if *out == "" {
		fmt.Print(b.String())
		return
	}
	exitOn(section.Replace(*out, "Netplay", b.String()))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "netplay:", err)
		os.Exit(1)
	}
}
