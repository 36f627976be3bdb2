package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
)

// Variables of the environment: chooser says which mutant of a batch is to run, and
// none is with 0. With witness, no mutant runs either, and that file is told the
// number of each changed function that is called, once.
const (
	chooser = "VOLLEY_MUTANT"
	witness = "VOLLEY_MUTANT_REACHED"
)

// chooserFile is added to a package for that.
const chooserFile = `package %s

import (
	"fmt"
	"os"
	"sync/atomic"
)

var mutant__ = func() (n int) {
	if os.Getenv("` + witness + `") != "" {
		return -1
	}
	for _, digit := range os.Getenv("` + chooser + `") {
		n = 10*n + int(digit-'0')
	}
	return n
}()

var reached__ [%d]atomic.Bool

func reach__(n int) {
	if reached__[n].Swap(true) {
		return
	}
	f, err := os.OpenFile(os.Getenv("` + witness + `"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintln(f, n)
		f.Close()
	}
	if err != nil {
		panic(err)
	}
}
`

// A batch is a copy of a package with many mutants in it, so that it is compiled
// once: each function has a copy for each mutant, to which it passes its calls on.
// Constants of a package, and functions that cannot pass on, are not in a batch.
type batch struct {
	overlay string
	numbers map[*mutant]int
	// entries are the numbers that functions say when they are called, by those
	// of their mutants.
	entries map[int]int
}

// newBatch writes a batch of these mutants of a package into a folder.
func newBatch(dir string, p *pkg, mutants []*mutant) (*batch, error) {
	b := &batch{numbers: make(map[*mutant]int), entries: make(map[int]int)}
	ofFile := make(map[*source][]*mutant)
	for _, m := range mutants {
		if m.decl != nil && passesOn(m.decl) {
			b.numbers[m] = len(b.numbers) + 1
			ofFile[m.source] = append(ofFile[m.source], m)
		}
	}
	texts := make(map[string][]byte)
	for s, list := range ofFile {
		texts[s.name] = b.file(p, s, list)
	}
	first := p.files[0]
	texts[filepath.Join(filepath.Dir(first.name), "mutant__.go")] = fmt.Appendf(nil, chooserFile, first.tree.Name.Name, len(b.numbers)+1)
	var err error
	b.overlay, err = writeOverlay(dir, texts)
	return b, err
}

// writeOverlay writes what the go command is to read in place of other files, and
// the list of them.
func writeOverlay(dir string, texts map[string][]byte) (name string, err error) {
	replace := make(map[string]string)
	for file, text := range texts {
		replace[file] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		err = errors.Join(err, os.WriteFile(replace[file], text, 0o666))
	}
	list, _ := json.Marshal(map[string]any{"Replace": replace})
	name = filepath.Join(dir, "overlay.json")
	return name, errors.Join(err, os.WriteFile(name, list, 0o666))
}

// passesOn reports whether a function can call another one with all it was given.
func passesOn(d *ast.FuncDecl) bool {
	if d.Type.TypeParams != nil || d.Recv == nil && d.Name.Name == "init" {
		return false
	}
	for _, list := range []*ast.FieldList{d.Recv, d.Type.Params} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			if len(field.Names) == 0 {
				return false
			}
			for _, name := range field.Names {
				if name.Name == "_" {
					return false
				}
			}
		}
	}
	return true
}

// file returns a file with those mutants in it.
func (b *batch) file(p *pkg, s *source, list []*mutant) []byte {
	offset := func(n ast.Node) int { return p.fset.Position(n.Pos()).Offset }
	var out, copies bytes.Buffer
	from, entry := 0, 0
	for i, m := range list {
		if i == 0 || list[i-1].decl != m.decl {
			brace := offset(m.decl.Body) + 1
			out.Write(s.text[from:brace])
			from, entry = brace, b.numbers[m]
			fmt.Fprintf(&out, "switch mutant__ {case -1: reach__(%d);", entry)
		}
		b.entries[b.numbers[m]] = entry
		name := fmt.Sprintf("%s__%d", m.decl.Name.Name, b.numbers[m])
		out.WriteString(passOn(m.decl, name, b.numbers[m]))
		if i == len(list)-1 || list[i+1].decl != m.decl {
			out.WriteString("};")
		}
		start, named, end := offset(m.decl.Type), offset(m.decl.Name), p.fset.Position(m.decl.End()).Offset
		copies.WriteString("\n\n")
		copies.Write(s.text[start:named])
		copies.WriteString(name)
		copies.Write(s.text[named+len(m.decl.Name.Name) : m.start])
		copies.WriteString(m.text)
		copies.Write(s.text[m.end:end])
	}
	out.Write(s.text[from:])
	out.Write(copies.Bytes())
	out.WriteString("\n")
	return out.Bytes()
}

// passOn returns the case in which a function calls another one in its place.
func passOn(d *ast.FuncDecl, name string, number int) string {
	var args []string
	for _, field := range d.Type.Params.List {
		for _, arg := range field.Names {
			args = append(args, arg.Name)
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	if d.Recv != nil {
		name = d.Recv.List[0].Names[0].Name + "." + name
	}
	call := fmt.Sprintf("%s(%s)", name, strings.Join(args, ", "))
	if d.Type.Results == nil {
		return fmt.Sprintf("case %d: %s; return;", number, call)
	}
	return fmt.Sprintf("case %d: return %s;", number, call)
}
