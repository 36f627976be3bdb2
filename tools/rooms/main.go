// Command rooms measures how the parts of a package are kept apart:
//
//	go run ./tools/rooms ./reliable
//	go run ./tools/rooms -type Endpoint -entry Receive -v ./reliable
//
// It reads the package's files without its tests, and prints
//
//   - the methods of a type, by default the one that has most of them, and the number
//     of files that they are in;
//   - the calls between files, and how many of them go upward. A call is a pair of
//     functions, the caller and the called, however often it is written. The files are
//     put in the order in which as few calls as possible go from a lower file to a
//     higher one, and those few go upward. Where parts do not know each other there are
//     none. Calls by an interface or a function value are not counted;
//   - the returns of an entry, a method of the type: how many of the upward calls are
//     made by functions that it reaches;
//   - the fields of a state that are written outside of its file. A state is a struct
//     type of the package that the type holds, itself or by way of another; its file
//     is the one that declares it. The type's own fields and the copies that
//     local variables are do not count;
//   - how long functions are, in lines.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	name := flag.String("type", "", "measure this `type`")
	entry := flag.String("entry", "Receive", "count the returns of this `method`")
	verbose := flag.Bool("v", false, "print each call that goes upward, and each write")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: rooms [flags] FOLDER")
		os.Exit(2)
	}
	p, err := load(flag.Arg(0))
	if err == nil {
		err = report(os.Stdout, p, *name, *entry, *verbose)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
}

// report prints the numbers of a package.
func report(w io.Writer, p *pkg, name, entry string, verbose bool) error {
	owner := p.owner(name)
	if owner == nil {
		return fmt.Errorf("there is no type %q with methods", name)
	}
	methods, files := p.methods(owner)
	fmt.Fprintf(w, "%s: %d methods in %d files\n", owner.Obj().Name(), methods, files)

	calls := p.calls()
	order := arrange(calls)
	up := upward(calls, order)
	fmt.Fprintf(w, "calls between files: %d, upward: %d\n", len(calls), len(up))
	returns := p.within(up, owner, entry)
	fmt.Fprintf(w, "returns of %s: %d\n", entry, len(returns))
	writes := p.writes(owner)
	fmt.Fprintf(w, "fields of a state written outside of its file: %d\n", len(writes))
	sizes := p.sizes()
	n := len(sizes)
	fmt.Fprintf(w, "functions: %d, lines: median %d, 90 %% up to %d, longest %d, over 40: %d\n",
		n, sizes[n/2], sizes[n*9/10], sizes[n-1], over(sizes, 40))
	fmt.Fprintf(w, "lines of source: %d in %d files\n", p.lines, len(p.files))
	if verbose {
		fmt.Fprintf(w, "order of files: %v\n", order)
		for _, c := range up {
			fmt.Fprintf(w, "upward: %s: %s calls %s: %s\n", c.from.file, c.from.name, c.to.file, c.to.name)
		}
		for _, s := range writes {
			fmt.Fprintln(w, "write:", s)
		}
	}
	return nil
}

func over(sizes []int, limit int) (n int) {
	for _, s := range sizes {
		if s > limit {
			n++
		}
	}
	return n
}
