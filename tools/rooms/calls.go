package main

import (
	"cmp"
	"go/ast"
	"go/types"
	"slices"
)

// A function is one of the package.
type function struct{ file, name string }

// A call is one from a function to another.
type call struct{ from, to function }

func (p *pkg) function(f *types.Func) function {
	name := f.Name()
	if recv := f.Signature().Recv(); recv != nil {
		if n := p.named(recv.Type()); n != nil {
			name = n.Obj().Name() + "." + name
		}
	}
	return function{p.file(f.Pos()), name}
}

// all returns all calls within the package, each once.
func (p *pkg) all() []call {
	seen := make(map[call]bool)
	p.functions(func(d *ast.FuncDecl) {
		from, ok := p.info.Defs[d.Name].(*types.Func)
		if !ok {
			return
		}
		ast.Inspect(d.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident) // also of a function that is not called here, but given away
			if !ok {
				return true
			}
			if to, ok := p.info.Uses[id].(*types.Func); ok && to.Pkg() == p.types && !isAbstract(to) {
				seen[call{p.function(from), p.function(to)}] = true
			}
			return true
		})
	})
	var list []call
	for c := range seen {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.from.file, b.from.file), cmp.Compare(a.from.name, b.from.name),
			cmp.Compare(a.to.file, b.to.file), cmp.Compare(a.to.name, b.to.name))
	})
	return list
}

// isAbstract reports whether f is a method of an interface.
func isAbstract(f *types.Func) bool {
	recv := f.Signature().Recv()
	return recv != nil && types.IsInterface(recv.Type())
}

// calls returns the calls between files.
func (p *pkg) calls() []call {
	return slices.DeleteFunc(p.all(), func(c call) bool { return c.from.file == c.to.file })
}

// upward returns the calls to a file that stands before that of the caller.
func upward(calls []call, order []string) (up []call) {
	at := make(map[string]int)
	for i, f := range order {
		at[f] = i
	}
	for _, c := range calls {
		if at[c.to.file] < at[c.from.file] {
			up = append(up, c)
		}
	}
	return up
}

// arrange returns the files in an order in which few calls go upward: one that no
// move of a single file to another place makes better.
func arrange(calls []call) []string {
	count := make(map[[2]string]int)
	balance := make(map[string]int)
	for _, c := range calls {
		count[[2]string{c.from.file, c.to.file}]++
		balance[c.from.file]++
		balance[c.to.file]--
	}
	var order []string
	for f := range balance {
		order = append(order, f)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(balance[b]-balance[a], cmp.Compare(a, b)) })
	for better := true; better; {
		better = false
		for i := range order {
			gain, best, to := 0, 0, i
			for j := i - 1; j >= 0; j-- { // past those before
				gain += count[[2]string{order[i], order[j]}] - count[[2]string{order[j], order[i]}]
				if gain > best {
					best, to = gain, j
				}
			}
			gain = 0
			for j := i + 1; j < len(order); j++ {
				gain += count[[2]string{order[j], order[i]}] - count[[2]string{order[i], order[j]}]
				if gain > best {
					best, to = gain, j
				}
			}
			if to != i {
				f := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), to, f)
				better = true
			}
		}
	}
	return order
}

// within returns those of the calls that are made by functions which a method reaches.
func (p *pkg) within(calls []call, owner *types.Named, entry string) (in []call) {
	all := p.all()
	reached := make(map[function]bool)
	var reach func(f function)
	reach = func(f function) {
		if reached[f] {
			return
		}
		reached[f] = true
		for _, c := range all {
			if c.from == f {
				reach(c.to)
			}
		}
	}
	for i := range owner.NumMethods() {
		if m := owner.Method(i); m.Name() == entry {
			reach(p.function(m))
		}
	}
	for _, c := range calls {
		if reached[c.from] {
			in = append(in, c)
		}
	}
	return in
}
