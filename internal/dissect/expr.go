package dissect

import (
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/bits"
	"strconv"
	"strings"
)

// An expr is an expression of a format, in the syntax of Go, for both dissectors.
type expr struct{ ast.Expr }

func parse(s string) expr {
	x, err := parser.ParseExpr(s)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", s, err))
	}
	return expr{x}
}

func parseAll(list []string) (all []expr) {
	for _, s := range list {
		all = append(all, parse(s))
	}
	return all
}

// functions are those that expressions may call. Behind a datagram's end all is 0.
var functions = map[string]func(d *decoder, args []any) any{
	"u8":    func(d *decoder, a []any) any { return int64(bitsAt(d.b, 8*num(a[0]), 8)) },
	"le":    func(d *decoder, a []any) any { return int64(bitsAt(d.b, 8*num(a[0]), 8*num(a[1]))) },
	"le64":  func(d *decoder, a []any) any { return bitsAt(d.b, 8*num(a[0]), 8*num(a[1])) },
	"bits":  func(d *decoder, a []any) any { return int64(bitsAt(d.b, num(a[0]), num(a[1]))) },
	"be":    bigEndian,
	"hex":   func(d *decoder, a []any) any { return hex.EncodeToString(d.b[num(a[0]) : num(a[0])+num(a[1])]) },
	"size":  func(_ *decoder, a []any) any { return size(num(a[0])) },
	"count": func(_ *decoder, a []any) any { return count(num(a[0]), a[1].(string), a[2].(string)) },
	"item":  func(_ *decoder, a []any) any { return a[1+num(a[0])] },
	"word":  func(_ *decoder, a []any) any { return word(a[0].(string), num(a[1])) },
	"unix":  func(_ *decoder, a []any) any { return unixText(a[0].(uint64)) },
	"acks":  ackText,
}

func bigEndian(d *decoder, a []any) any {
	v := int64(0)
	for i := range num(a[1]) {
		v = v<<8 | int64(bitsAt(d.b, 8*(num(a[0])+i), 8))
	}
	return v
}

// word returns the name of a number in a list, or the number.
func word(list string, i int) string {
	if s := lists[list]; i < len(s) {
		return s[i]
	}
	return strconv.Itoa(i)
}

// ackText says what a header of a reliable packet acknowledges.
func ackText(_ *decoder, a []any) any {
	if num(a[0]) == 65535 && num(a[1]) == 0 {
		return "has heard nothing"
	}
	return fmt.Sprintf("ack %d, %d of 32 received", a[0], bits.OnesCount32(uint32(num(a[1]))))
}

func num(v any) int {
	if u, ok := v.(uint64); ok {
		return int(u)
	}
	return int(v.(int64))
}

// eval returns an int64, a uint64 of le64, a string or a bool.
func (d *decoder) eval(x ast.Expr) any {
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			s, _ := strconv.Unquote(x.Value)
			return s
		}
		v, _ := strconv.ParseInt(x.Value, 0, 64)
		return v
	case *ast.Ident:
		if x.Name == "len" {
			return int64(len(d.b))
		}
		return d.vars[x.Name]
	case *ast.ParenExpr:
		return d.eval(x.X)
	case *ast.CallExpr:
		args := make([]any, len(x.Args))
		for i, a := range x.Args {
			args[i] = d.eval(a)
		}
		return functions[x.Fun.(*ast.Ident).Name](d, args)
	case *ast.BinaryExpr:
		return d.binary(x)
	}
	panic(fmt.Sprintf("%T in an expression", x))
}

func (d *decoder) binary(x *ast.BinaryExpr) any {
	a := d.eval(x.X)
	if ok, is := a.(bool); is {
		if ok == (x.Op == token.LOR) {
			return ok
		}
		return d.eval(x.Y)
	}
	b := d.eval(x.Y)
	switch x.Op {
	case token.EQL:
		return a == b
	case token.NEQ:
		return a != b
	}
	m, n := a.(int64), b.(int64)
	switch x.Op {
	case token.ADD:
		return m + n
	case token.SUB:
		return m - n
	case token.MUL:
		return m * n
	case token.QUO:
		return m / n
	case token.REM:
		return m % n
	case token.LSS:
		return m < n
	case token.LEQ:
		return m <= n
	case token.GTR:
		return m > n
	case token.GEQ:
		return m >= n
	}
	panic("unknown operator " + x.Op.String())
}

func (d *decoder) int(x expr) int   { return num(d.eval(x.Expr)) }
func (d *decoder) true(x expr) bool { return d.eval(x.Expr).(bool) }

func (d *decoder) format(format string, args []expr) string {
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = d.eval(a.Expr)
	}
	return fmt.Sprintf(format, values...)
}

// luaOperators are those that Lua writes in another way.
var luaOperators = strings.NewReplacer("&&", "and", "||", "or", "!=", "~=")

// lua returns the expression in Lua. The operators' precedence is that of Go.
func lua(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Value
	case *ast.Ident:
		if x.Name == "len" {
			return "d.len"
		}
		return "v." + x.Name
	case *ast.ParenExpr:
		return "(" + lua(x.X) + ")"
	case *ast.CallExpr:
		return "E." + x.Fun.(*ast.Ident).Name + "(d" + luaArgs(x.Args) + ")"
	case *ast.BinaryExpr:
		if x.Op == token.QUO {
			return "math.floor(" + lua(x.X) + " / " + lua(x.Y) + ")"
		}
		return lua(x.X) + " " + luaOperators.Replace(x.Op.String()) + " " + lua(x.Y)
	}
	panic(fmt.Sprintf("%T in an expression", x))
}

// luaArgs returns arguments, each behind a comma.
func luaArgs[E ast.Expr](args []E) (s string) {
	for _, a := range args {
		s += ", " + lua(a)
	}
	return s
}

func (x expr) lua() string { return lua(x.Expr) }
