package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// boundaries and opposites are what comparisons become.
var (
	boundaries = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
	opposites = map[token.Token]token.Token{
		token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS,
		token.EQL: token.NEQ, token.NEQ: token.EQL,
	}
	logic      = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	arithmetic = map[token.Token]token.Token{
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
		token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND, token.AND_NOT: token.AND,
		token.SHL: token.SHR, token.SHR: token.SHL,
	}
	assignments = map[token.Token]token.Token{
		token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.MUL_ASSIGN: token.QUO_ASSIGN,
		token.QUO_ASSIGN: token.MUL_ASSIGN, token.AND_ASSIGN: token.OR_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN,
		token.XOR_ASSIGN: token.AND_ASSIGN, token.AND_NOT_ASSIGN: token.AND_ASSIGN,
		token.SHL_ASSIGN: token.SHR_ASSIGN, token.SHR_ASSIGN: token.SHL_ASSIGN,
	}
)

// A finder looks for the places of a file that can be changed.
type finder struct {
	pkg      *pkg
	source   *source
	file     *token.File
	function string
	decl     *ast.FuncDecl
	results  *ast.FieldList // of the innermost function
	found    []*mutant
	seen     map[[2]int]map[string]bool
	same     map[*ast.BinaryExpr]string // kinds of change that make no difference, see idle.go
}

// enumerate returns the mutants of a file, in the order of the source. Some do
// not compile.
func enumerate(p *pkg, s *source) []*mutant {
	f := &finder{pkg: p, source: s, file: p.fset.File(s.tree.Pos()), seen: make(map[[2]int]map[string]bool), same: make(map[*ast.BinaryExpr]string)}
	for _, d := range s.tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body == nil {
				continue
			}
			f.function, f.decl = functionName(d), d
			f.empty(d.Type, d.Body)
			f.walk(d.Body)
		case *ast.GenDecl:
			f.decl = nil
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && !f.asserts(v) {
					f.function = v.Names[0].Name
					for _, x := range v.Values {
						f.walk(x)
					}
				}
			}
		}
	}
	return f.found
}

// put notes a mutant in which what stands from one place to another becomes text.
func (f *finder) put(kind string, from, to token.Pos, text string) {
	start, end := f.file.Offset(from), f.file.Offset(to)
	at := [2]int{start, end}
	if f.seen[at] == nil {
		f.seen[at] = make(map[string]bool)
	}
	if f.seen[at][text] {
		return
	}
	f.seen[at][text] = true
	f.found = append(f.found, &mutant{
		pkg: f.pkg, source: f.source, decl: f.decl, function: f.function, kind: kind,
		line: f.file.Line(from), start: start, end: end, text: text,
	})
}

// text returns the source of a node.
func (f *finder) text(n ast.Node) string {
	return string(f.source.text[f.file.Offset(n.Pos()):f.file.Offset(n.End())])
}

// walk looks at a node and all below it.
func (f *finder) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			if isPanic(n.X) { // which is for what cannot happen
				return false
			}
		case *ast.BinaryExpr:
			f.binary(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT || n.Op == token.SUB {
				f.put("sign", n.OpPos, n.X.Pos(), "")
			}
		case *ast.BasicLit:
			f.literal(n)
		case *ast.Ident:
			f.boolean(n)
		case *ast.CallExpr:
			return f.call(n)
		case *ast.BlockStmt:
			f.statements(n.List)
		case *ast.CaseClause:
			f.statements(n.Body)
			f.body("branch", n.Colon+1, n.Body)
		case *ast.CommClause:
			f.statements(n.Body)
			f.body("branch", n.Colon+1, n.Body)
		case *ast.IfStmt:
			f.extreme(n)
			f.branches(n)
		case *ast.ForStmt:
			f.once(n.Body)
			if post, ok := n.Post.(*ast.IncDecStmt); ok { // changed, it would hardly ever end
				f.walkLoop(n, post)
				return false
			}
		case *ast.RangeStmt:
			f.once(n.Body)
		case *ast.ReturnStmt:
			f.returned(n)
			if last := len(n.Results) - 1; last > 0 && f.text(n.Results[last]) == "false" {
				f.walk(n.Results[last]) // which says that the others mean nothing
				return false
			}
		case *ast.BranchStmt:
			f.jump(n)
		case *ast.AssignStmt:
			if to, ok := assignments[n.Tok]; ok && !f.is(types.IsString, n.Lhs[0]) {
				f.put("arithmetic", n.TokPos, n.TokPos+token.Pos(len(n.Tok.String())), to.String())
			}
		case *ast.IncDecStmt:
			to := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
			f.put("arithmetic", n.TokPos, n.TokPos+2, to)
		case *ast.FuncLit:
			outer := f.results
			f.empty(n.Type, n.Body)
			f.walk(n.Body)
			f.results = outer
			return false
		}
		return true
	})
}

// walkLoop looks at the parts of a loop, less what counts it on.
func (f *finder) walkLoop(n *ast.ForStmt, post *ast.IncDecStmt) {
	for _, part := range []ast.Node{n.Init, n.Cond, post.X, n.Body} {
		switch part := part.(type) {
		case ast.Stmt:
			f.walk(part)
		case ast.Expr:
			f.walk(part)
		}
	}
}

func (f *finder) binary(n *ast.BinaryExpr) {
	end := n.OpPos + token.Pos(len(n.Op.String()))
	if to, ok := boundaries[n.Op]; ok && f.same[n] != "boundary" {
		f.put("boundary", n.OpPos, end, to.String())
	}
	if to, ok := opposites[n.Op]; ok {
		f.put("comparison", n.OpPos, end, to.String())
	}
	if to, ok := logic[n.Op]; ok {
		f.put("logic", n.OpPos, end, to.String())
	}
	if to, ok := arithmetic[n.Op]; ok && !f.is(types.IsString, n.X) {
		f.put("arithmetic", n.OpPos, end, to.String())
	}
	if x, y := f.text(n.X), f.text(n.Y); n.Op == token.SUB && x != y && f.same[n] != "operands" {
		f.put("operands", n.Pos(), n.End(), "("+y+") - ("+x+")")
	}
}

// is reports whether an expression has a type that is basic, and such.
func (f *finder) is(such types.BasicInfo, x ast.Expr) bool {
	t := f.pkg.info.Types[x].Type
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&such != 0
}

// literal makes a number one more and one less, and a fraction twice as large.
func (f *finder) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.FLOAT:
		f.put("constant", n.Pos(), n.End(), "(2 * "+n.Value+")")
	case token.INT:
		v, exact := constant.Int64Val(constant.MakeFromLiteral(n.Value, token.INT, 0))
		if !exact {
			return
		}
		f.put("constant", n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
		if v > 0 {
			f.put("constant", n.Pos(), n.End(), strconv.FormatInt(v-1, 10))
		}
	}
}

func (f *finder) boolean(n *ast.Ident) {
	switch f.pkg.info.Uses[n] {
	case types.Universe.Lookup("true"):
		f.put("constant", n.Pos(), n.End(), "false")
	case types.Universe.Lookup("false"):
		f.put("constant", n.Pos(), n.End(), "true")
	}
}

// call exchanges min and max, and neighbours among the arguments that have the
// same type. It reports whether to look at the parts.
func (f *finder) call(n *ast.CallExpr) bool {
	if isPanic(n) {
		return false
	}
	f.distance(n)
	if id, ok := n.Fun.(*ast.Ident); ok {
		if _, builtin := f.pkg.info.Uses[id].(*types.Builtin); builtin {
			switch id.Name {
			case "min":
				f.put("limit", id.Pos(), id.End(), "max")
			case "max":
				f.put("limit", id.Pos(), id.End(), "min")
			case "make": // a capacity is nothing that could be seen
				for _, arg := range n.Args[:min(len(n.Args), 2)] {
					f.walk(arg)
				}
				return false
			}
			return true
		}
	}
	if f.pkg.info.Types[n.Fun].IsType() {
		return true
	}
	for i := 1; i < len(n.Args); i++ {
		a, b := n.Args[i-1], n.Args[i]
		ta, tb := f.pkg.info.Types[a].Type, f.pkg.info.Types[b].Type
		if x, y := f.text(a), f.text(b); ta != nil && tb != nil && types.Identical(ta, tb) && x != y && !isNil(a) {
			f.put("operands", a.Pos(), b.End(), y+", "+x)
		}
	}
	return true
}

func isNil(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "nil"
}

func isPanic(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	return ok && id.Name == "panic"
}

// statements leaves statements out.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if !isPanic(s.X) {
				f.put("statement", s.Pos(), s.End(), "")
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.put("statement", s.Pos(), s.End(), "")
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
			f.put("statement", s.Pos(), s.End(), "")
		}
	}
}

// body leaves out what begins behind a brace or a colon, if there is something
// that is not left out as a statement, too.
func (f *finder) body(kind string, from token.Pos, list []ast.Stmt) {
	if len(list) == 0 {
		return
	}
	if len(list) == 1 {
		switch s := list[0].(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
			return
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				return
			}
		}
	}
	f.put(kind, from, list[len(list)-1].End(), "")
}

func (f *finder) branches(n *ast.IfStmt) {
	switch n.Cond.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr:
	default:
		f.put("comparison", n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
	}
	f.body("branch", n.Body.Lbrace+1, n.Body.List)
	if other, ok := n.Else.(*ast.BlockStmt); ok {
		f.body("branch", other.Lbrace+1, other.List)
	}
}

// once makes a loop end after its first turn.
func (f *finder) once(body *ast.BlockStmt) {
	if len(body.List) == 0 {
		return
	}
	switch last := body.List[len(body.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return
	case *ast.ExprStmt:
		if isPanic(last.X) {
			return
		}
	}
	separator := "\n"
	if f.file.Line(body.Lbrace) == f.file.Line(body.Rbrace) {
		separator = ";"
	}
	f.put("loop", body.List[len(body.List)-1].End(), body.Rbrace, separator+"break"+separator)
}

// empty leaves out the body of a function without results, and notes what the
// returns inside it return.
func (f *finder) empty(t *ast.FuncType, body *ast.BlockStmt) {
	f.results = t.Results
	if t.Results == nil && len(body.List) > 1 {
		f.put("return", body.Lbrace+1, body.List[len(body.List)-1].End(), "")
	}
}

// returned turns booleans round, and forgets errors.
func (f *finder) returned(n *ast.ReturnStmt) {
	for _, x := range n.Results {
		t := f.pkg.info.Types[x].Type
		if t == nil || isNil(x) {
			continue
		}
		if types.Identical(t, types.Universe.Lookup("error").Type()) || f.isErrorResult(n, x) {
			f.put("return", x.Pos(), x.End(), "nil")
			continue
		}
		switch x.(type) {
		case *ast.CallExpr, *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
			if b, ok := t.Underlying().(*types.Basic); ok && b.Info()&types.IsBoolean != 0 && f.text(x) != "true" && f.text(x) != "false" {
				f.put("return", x.Pos(), x.End(), "!("+f.text(x)+")")
			}
		}
	}
}

// isErrorResult reports whether the last result of the function is an error, and x
// is that.
func (f *finder) isErrorResult(n *ast.ReturnStmt, x ast.Expr) bool {
	if f.results == nil || len(f.results.List) == 0 || len(n.Results) != f.results.NumFields() || n.Results[len(n.Results)-1] != x {
		return false
	}
	id, ok := f.results.List[len(f.results.List)-1].Type.(*ast.Ident)
	return ok && id.Name == "error"
}

// jump exchanges break and continue.
func (f *finder) jump(n *ast.BranchStmt) {
	switch n.Tok {
	case token.BREAK:
		f.put("jump", n.Pos(), n.End(), strings.Replace(f.text(n), "break", "continue", 1))
	case token.CONTINUE:
		f.put("jump", n.Pos(), n.End(), strings.Replace(f.text(n), "continue", "break", 1))
	}
}
