package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// writes returns where a field of a state is written outside of its file.
func (p *pkg) writes(owner *types.Named) (list []string) {
	states := p.states(owner)
	p.functions(func(d *ast.FuncDecl) {
		ast.Inspect(d.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, to := range n.Lhs {
						list = append(list, p.write(to, states)...)
					}
				}
			case *ast.IncDecStmt:
				list = append(list, p.write(n.X, states)...)
			}
			return true
		})
	})
	slices.Sort(list)
	return list
}

// states returns the struct types that a type holds, in whatever way.
func (p *pkg) states(owner *types.Named) map[*types.Named]bool {
	states := make(map[*types.Named]bool)
	var look func(t types.Type)
	look = func(t types.Type) {
		switch u := types.Unalias(t).(type) {
		case *types.Pointer:
			look(u.Elem())
		case *types.Slice:
			look(u.Elem())
		case *types.Array:
			look(u.Elem())
		case *types.Named:
			s, ok := u.Underlying().(*types.Struct)
			if !ok || u.Obj().Pkg() != p.types || states[u] {
				return
			}
			states[u] = true
			for i := range s.NumFields() {
				look(s.Field(i).Type())
			}
		}
	}
	look(owner)
	delete(states, owner)
	return states
}

// write returns what an assignment to an expression writes of a state, if its
// file is another one: a field, or through a pointer the whole.
func (p *pkg) write(to ast.Expr, states map[*types.Named]bool) []string {
	for {
		switch e := to.(type) {
		case *ast.ParenExpr:
			to = e.X
			continue
		case *ast.IndexExpr:
			to = e.X
			continue
		case *ast.StarExpr:
			if _, pointer := p.info.TypeOf(e).Underlying().(*types.Pointer); pointer {
				return nil
			}
			return p.outside(e, p.named(p.info.TypeOf(e)), states, "*")
		case *ast.SelectorExpr:
			sel := p.info.Selections[e]
			if sel == nil || p.local(e.X) {
				return nil
			}
			return p.outside(e, holder(p, sel), states, sel.Obj().Name())
		}
		return nil
	}
}

func (p *pkg) outside(e ast.Expr, n *types.Named, states map[*types.Named]bool, field string) []string {
	if n == nil || !states[n] || p.file(n.Obj().Pos()) == p.file(e.Pos()) {
		return nil
	}
	return []string{fmt.Sprintf("%v: %s.%s", p.fset.Position(e.Pos()), n.Obj().Name(), field)}
}

// holder returns the type that has the field of a selection, which may be embedded.
func holder(p *pkg, sel *types.Selection) *types.Named {
	n := p.named(sel.Recv())
	for _, i := range sel.Index()[:len(sel.Index())-1] {
		if n == nil {
			return nil
		}
		n = p.named(n.Underlying().(*types.Struct).Field(i).Type())
	}
	return n
}

// local reports whether an expression is a part of a local variable that is a struct.
func (p *pkg) local(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.SelectorExpr:
			if _, ok := p.info.TypeOf(x.X).Underlying().(*types.Pointer); ok {
				return false
			}
			e = x.X
		case *ast.Ident:
			v, ok := p.info.Uses[x].(*types.Var)
			if !ok || v.Parent() == p.types.Scope() {
				return false
			}
			_, pointer := v.Type().Underlying().(*types.Pointer)
			return !pointer
		default:
			return false
		}
	}
}
