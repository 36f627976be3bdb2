// Command cover reads a coverage profile and prints which part of the statements
// of each package was run, and which were not:
//
//	go test -coverpkg ./reliable,./netcode,./internal/... -coverprofile cover.out ./...
//	go run ./tools/cover cover.out
//
// Of the packages and files that are to be covered almost whole, those that are
// below the limit are named, and the exit status is 1. Unlike go tool cover, it
// counts a statement once that the tests of several packages have run.
package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// netcodeCore are the files of netcode that are a core, which internal/repotest
// marks.
var netcodeCore = []string{
	"client.go", "server.go", "server_handshake.go", "handshakes.go", "history.go", "slots.go",
	"session.go", "halves.go", "replay.go", "cipher.go", "challenge.go", "private.go", "request.go", "constants.go",
}

// A part is what one figure is about.
type part struct {
	statements, run int
	missed          []string // places
}

func (p part) percent() float64 { return 100 * float64(p.run) / float64(max(p.statements, 1)) }

func main() {
	limit := flag.Float64("min", 97, "percentage below which a part fails")
	missed := flag.Bool("missed", false, "print the statements that were not run")
	flag.Parse()
	code := 2
	f, err := os.Open(flag.Arg(0))
	if err == nil {
		defer f.Close()
		code, err = report(os.Stdout, f, *limit, *missed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cover:", err)
	}
	os.Exit(code)
}

// report prints the figures of a profile. It returns the exit status.
func report(w io.Writer, profile io.Reader, limit float64, missed bool) (int, error) {
	parts, err := read(profile)
	if err != nil {
		return 2, err
	}
	code := 0
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := parts[name]
		note := ""
		if held(name) && p.percent() < limit {
			note, code = fmt.Sprintf("  below %v %%", limit), 1
		}
		fmt.Fprintf(w, "%-34s %5d of %5d statements  %5.1f %%%s\n", name, p.run, p.statements, p.percent(), note)
		if missed && held(name) {
			for _, place := range p.missed {
				fmt.Fprintf(w, "\t%s\n", place)
			}
		}
	}
	return code, nil
}

// held reports whether a part is held to the limit.
func held(name string) bool {
	return name == "volley/reliable" || name == netcodeCores || name == allInternal
}

const (
	netcodeCores = "volley/netcode, its cores"
	allInternal  = "volley/internal/..."
)

// partsOf returns the parts to which a file belongs.
func partsOf(file string) []string {
	dir, name := path.Split(file)
	dir = path.Clean(dir)
	switch {
	case dir == "volley/netcode" && slices.Contains(netcodeCore, name):
		return []string{dir, netcodeCores}
	case strings.HasPrefix(dir, "volley/internal/") && !strings.HasSuffix(dir, "test") && dir != "volley/internal/socketpair" && dir != "volley/internal/vectors":
		return []string{dir, allInternal}
	}
	return []string{dir}
}

// read sums up a profile. A block that is there several times was run if one of
// them says so.
func read(profile io.Reader) (map[string]*part, error) {
	type block struct {
		statements int
		run        bool
	}
	blocks := make(map[string]block)
	s := bufio.NewScanner(profile)
	for n := 1; s.Scan(); n++ {
		if strings.HasPrefix(s.Text(), "mode:") {
			continue
		}
		fields := strings.Fields(s.Text()) // file.go:1.2,3.4 statements count
		if len(fields) != 3 || !strings.Contains(fields[0], ":") {
			return nil, fmt.Errorf("line %d is none of a coverage profile", n)
		}
		statements, err1 := strconv.Atoi(fields[1])
		count, err2 := strconv.ParseUint(fields[2], 10, 64)
		if err := cmp.Or(err1, err2); err != nil {
			return nil, fmt.Errorf("line %d: %v", n, err)
		}
		blocks[fields[0]] = block{statements, count > 0 || blocks[fields[0]].run}
	}
	if len(blocks) == 0 && s.Err() == nil {
		return nil, fmt.Errorf("the profile is empty")
	}
	parts := make(map[string]*part)
	for _, place := range slices.Sorted(maps.Keys(blocks)) {
		b := blocks[place]
		file, _, _ := strings.Cut(place, ":")
		for _, name := range partsOf(file) {
			p := parts[name]
			if p == nil {
				p = new(part)
				parts[name] = p
			}
			p.statements += b.statements
			if b.run {
				p.run += b.statements
			} else {
				p.missed = append(p.missed, place)
			}
		}
	}
	return parts, s.Err()
}
