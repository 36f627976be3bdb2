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
	exitOn(replaceSection(*out, b.String()))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "netplay:", err)
		os.Exit(1)
	}
}

// before is the title of the section that follows ours.
const before = "\n## Where others win\n"

// replaceSection puts the section into a file, in place of an older one.
func replaceSection(name, section string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text := string(data)
	if start := strings.Index(text, "\n## Netplay\n"); start >= 0 {
		end := len(text)
		if n := strings.Index(text[start+1:], "\n## "); n >= 0 {
			end = start + 1 + n
		}
		text = text[:start] + text[end:]
	}
	head, tail, found := strings.Cut(text, before)
	if found {
		tail = before + tail
	}
	return os.WriteFile(name, []byte(strings.TrimRight(head, "\n")+"\n\n"+strings.TrimRight(section, "\n")+"\n"+tail), 0o644)
}
