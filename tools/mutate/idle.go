package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// Some changes can be seen to make no difference by their form alone. They are no
// mutants, so that nobody has to explain each of them.

// asserts reports whether a declaration is for the compiler alone: it declares
// nothing but _, and nothing happens where its values are computed.
func (f *finder) asserts(v *ast.ValueSpec) bool {
	for _, name := range v.Names {
		if name.Name != "_" {
			return false
		}
	}
	for _, x := range v.Values {
		if !f.pure(x) {
			return false
		}
	}
	return true
}

// distance looks for abs(a - b), which is abs(b - a).
func (f *finder) distance(n *ast.CallExpr) {
	name := ""
	switch fun := n.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	if strings.EqualFold(name, "abs") && len(n.Args) == 1 {
		if x, ok := ast.Unparen(n.Args[0]).(*ast.BinaryExpr); ok && x.Op == token.SUB {
			f.same[x] = "operands"
		}
	}
}

// extreme looks for
//
//	if a < b { b = a }
//
// and the like, with other conditions beside a < b: where the two are equal, it
// makes no difference whether one is assigned to the other. Of fractions there are
// two zeros, which are equal, so it is for integers.
func (f *finder) extreme(n *ast.IfStmt) {
	if n.Else != nil || len(n.Body.List) != 1 || !f.pure(n.Cond) {
		return
	}
	set, ok := n.Body.List[0].(*ast.AssignStmt)
	if !ok || set.Tok != token.ASSIGN || len(set.Lhs) != 1 || len(set.Rhs) != 1 {
		return
	}
	to, from := f.text(set.Lhs[0]), f.text(set.Rhs[0])
	ast.Inspect(n.Cond, func(part ast.Node) bool {
		if c, ok := part.(*ast.BinaryExpr); ok && boundaries[c.Op] != 0 && f.is(types.IsInteger, c.X) {
			if x, y := f.text(c.X), f.text(c.Y); x == from && y == to || x == to && y == from {
				f.same[c] = "boundary"
			}
		}
		return true
	})
}

// pure reports whether nothing happens where an expression is computed: it calls
// no function, but for conversions and what is constant, and receives nothing.
func (f *finder) pure(x ast.Expr) bool {
	pure := true
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if v := f.pkg.info.Types[n]; v.Value == nil && !f.pkg.info.Types[n.Fun].IsType() {
				pure = false
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				pure = false
			}
		}
		return pure
	})
	return pure
}
