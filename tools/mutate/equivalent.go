package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// An equivalent is a mutant that is known to change nothing that could be seen.
type equivalent struct {
	pkg, function string
	before, after string // squeezed
	reason        string
	line          int
}

type equivalents []*equivalent

// readEquivalents reads a file of entries with an empty line between them. The
// first line of an entry is the package and the function, or the constant. Lines
// that begin with - and + are those of the mutant, and what else there is is the
// reason. Lines that begin with # are comments.
func readEquivalents(name string) (equivalents, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var (
		list    equivalents
		current *equivalent
	)
	scanner := bufio.NewScanner(f)
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimSpace(scanner.Text())
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			current = nil
		case current == nil:
			pkg, function, ok := strings.Cut(line, " ")
			if !ok {
				return nil, fmt.Errorf("%s:%d: want a package and a function", name, n)
			}
			current = &equivalent{pkg: pkg, function: function, line: n}
			list = append(list, current)
		case line[0] == '-':
			current.before = squeeze(current.before + " " + line[1:])
		case line[0] == '+':
			current.after = squeeze(current.after + " " + line[1:])
		default:
			current.reason = squeeze(current.reason + " " + line)
		}
	}
	for _, e := range list {
		if e.before == "" || e.reason == "" {
			return nil, fmt.Errorf("%s:%d: want the lines of the mutant, with - and +, and a reason", name, e.line)
		}
	}
	return list, scanner.Err()
}

// explain marks those of the mutants that are known. It returns the entries of
// these packages that fit none.
func (list equivalents) explain(all []*mutant, picked []target) (unused []*equivalent) {
	byKey := make(map[string]*equivalent)
	used := make(map[*equivalent]bool)
	for _, e := range list {
		byKey[strings.Join([]string{e.pkg, e.function, e.before, e.after}, "\n")] = e
	}
	for _, m := range all {
		if e := byKey[m.key()]; e != nil {
			used[e] = true
			m.verdict = explain
		}
	}
	for _, e := range list {
		read := slices.ContainsFunc(picked, func(t target) bool { return t.dir == e.pkg })
		known := slices.ContainsFunc(targets, func(t target) bool { return t.dir == e.pkg })
		if !used[e] && (read || !known) {
			unused = append(unused, e)
		}
	}
	return unused
}
