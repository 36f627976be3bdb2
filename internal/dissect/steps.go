package dissect

import (
	"fmt"
	"strings"
)

// A step is a part of a format. The decoder walks over steps, and they are written as Lua.
type step interface {
	// run does the step; false: nothing behind it can be read.
	run(d *decoder) bool
	lua(w *luaWriter)
}

// steps are done one after the other.
type steps []step

func (s steps) run(d *decoder) bool {
	for _, one := range s {
		if !one.run(d) {
			return false
		}
	}
	return true
}

func (s steps) lua(w *luaWriter) {
	for _, one := range s {
		one.lua(w)
	}
}

// A luaWriter collects lines of Lua.
type luaWriter struct {
	strings.Builder
	depth int
}

func (w *luaWriter) line(format string, args ...any) {
	fmt.Fprintf(w, strings.Repeat("\t", w.depth)+format+"\n", args...)
}

func (w *luaWriter) block(s steps) {
	w.depth++
	s.lua(w)
	w.depth--
}

// A letStep gives a value a name.
type letStep struct {
	name  string
	value expr
}

func let(name, value string) step { return letStep{name, parse(value)} }

func (s letStep) run(d *decoder) bool {
	d.vars[s.name] = d.eval(s.value.Expr)
	return true
}

func (s letStep) lua(w *luaWriter) { w.line("v.%s = %s", s.name, s.value.lua()) }

// An addStep adds a field. Its value can be used behind it by the field's name.
type addStep struct {
	name  string
	at, n expr
	value *expr  // nil: the bytes, if there are any
	list  string // of the value's names, if it is not the field's
}

func add(name, at, n, value string) step {
	v := parse(value)
	return addStep{name, parse(at), parse(n), &v, ""}
}

// raw adds n bytes at at, unless there are none.
func raw(name, at, n string) step { return addStep{name, parse(at), parse(n), nil, ""} }

// packed adds a number of n bits from bit at on. Its bytes are all that hold any of them.
func packed(name string, at, n int, list string) step {
	v := parse(fmt.Sprintf("bits(%d, %d)", at, n))
	return addStep{name, parse(fmt.Sprint(at / 8)), parse(fmt.Sprint((at+n-1)/8 - at/8 + 1)), &v, list}
}

func (s addStep) run(d *decoder) bool {
	off, n := d.int(s.at), d.int(s.n)
	if s.value == nil {
		if n > 0 {
			d.add(s.name, off, n, d.b[off:off+n])
		}
		return true
	}
	spec := specs[d.family+"."+s.name]
	v := d.eval(s.value.Expr)
	text := ""
	switch spec.kind {
	case "int16":
		v = int64(int16(num(v)))
	case "int32":
		v = int64(int32(num(v)))
	}
	d.vars[variable(s.name)] = v
	value := v
	if i, ok := v.(int64); ok && spec.kind == "bool" {
		value = i != 0
	} else if ok && !strings.HasPrefix(spec.kind, "int") {
		value = uint64(i)
	}
	if list := lists[s.list+spec.names]; list != nil {
		text = name(list, value.(uint64))
	} else if spec.names == "unix" {
		text = unixText(v.(uint64))
	}
	d.add(s.name, off, n, value).Text = text
	return true
}

func (s addStep) lua(w *luaWriter) {
	if s.value == nil {
		w.line("d:raw(%q, %s, %s)", s.name, s.at.lua(), s.n.lua())
		return
	}
	w.line("d:add(v, %q, %s, %s, %s)", s.name, s.at.lua(), s.n.lua(), s.value.lua())
}

// variable returns the name of a field in expressions: type is a keyword of Go.
func variable(field string) string {
	if field == "type" {
		return "typ"
	}
	return strings.ReplaceAll(field, ".", "_")
}

// A sayStep writes the summary.
type sayStep struct {
	what, format string
	args         []expr
}

// say sets the summary, also adds to it, and title is of the field around it, in Wireshark.
func say(format string, args ...string) step   { return sayStep{"say", format, parseAll(args)} }
func also(format string, args ...string) step  { return sayStep{"also", format, parseAll(args)} }
func title(format string, args ...string) step { return sayStep{"title", format, parseAll(args)} }

func (s sayStep) run(d *decoder) bool {
	switch s.what {
	case "say":
		d.says = ""
		fallthrough
	case "also":
		d.says += d.format(s.format, s.args)
	}
	return true
}

func (s sayStep) lua(w *luaWriter) { w.line("d:%s(%q%s)", s.what, s.format, luaList(s.args)) }

func luaList(args []expr) (s string) {
	for _, a := range args {
		s += ", " + a.lua()
	}
	return s
}

// A checkStep tells a problem, or a note, unless a condition is true.
type checkStep struct {
	cond       expr
	stop, note bool
	format     string
	args       []expr
}

// need ends with a problem unless cond is true; check goes on.
func need(cond, format string, args ...string) step {
	return checkStep{parse(cond), true, false, format, parseAll(args)}
}

func check(cond, format string, args ...string) step {
	return checkStep{parse(cond), false, false, format, parseAll(args)}
}

func usual(cond, note string) step { return checkStep{parse(cond), false, true, note, nil} }

func (s checkStep) run(d *decoder) bool {
	if d.true(s.cond) {
		return true
	}
	switch text := d.format(s.format, s.args); {
	case !s.note:
		d.problem("%s", text)
	case d.Problem == "" && d.Note == "":
		d.Note = text
	}
	return !s.stop
}

func (s checkStep) lua(w *luaWriter) {
	how := "d:problem"
	if s.note {
		how = "d:unusual"
	}
	if s.stop {
		how = "return " + how
	}
	w.line("if not (%s) then %s(%q%s) end", s.cond.lua(), how, s.format, luaList(s.args))
}

// A caseStep does the first of its branches whose condition is true.
type caseStep []branch

type branch struct {
	cond *expr // nil: true
	do   steps
}

func when(cond string, do ...step) caseStep { return caseStep(nil).or(cond, do...) }

func (s caseStep) or(cond string, do ...step) caseStep {
	c := parse(cond)
	return append(s, branch{&c, do})
}

func (s caseStep) otherwise(do ...step) caseStep { return append(s, branch{nil, do}) }

func (s caseStep) run(d *decoder) bool {
	for _, b := range s {
		if b.cond == nil || d.true(*b.cond) {
			return b.do.run(d)
		}
	}
	return true
}

func (s caseStep) lua(w *luaWriter) {
	for i, b := range s {
		switch {
		case b.cond == nil:
			w.line("else")
		case i == 0:
			w.line("if %s then", b.cond.lua())
		default:
			w.line("elseif %s then", b.cond.lua())
		}
		w.block(b.do)
	}
	w.line("end")
}

// A loopStep does steps n times, with i from 0 on.
type loopStep struct {
	n  expr
	do steps
}

func loop(n string, do ...step) step { return loopStep{parse(n), do} }

func (s loopStep) run(d *decoder) bool {
	for i := range int64(d.int(s.n)) {
		d.vars["i"] = i
		if !s.do.run(d) {
			return false
		}
	}
	return true
}

func (s loopStep) lua(w *luaWriter) {
	w.line("for i = 0, %s - 1 do", s.n.lua())
	w.depth++
	w.line("v.i = i")
	s.do.lua(w)
	w.depth--
	w.line("end")
}

// A groupStep adds a field that holds others. Without a name it goes on behind ended steps.
type groupStep struct {
	name  string
	at, n expr
	do    steps
}

func group(name, at, n string, do ...step) step { return groupStep{name, parse(at), parse(n), do} }
func within(do ...step) step                    { return groupStep{do: do} }

func (s groupStep) run(d *decoder) bool {
	if s.name == "" {
		s.do.run(d)
		return true
	}
	outer := d.Fields
	d.Fields = nil
	s.do.run(d)
	inner := d.Fields
	d.Fields = outer
	d.add(s.name, d.int(s.at), d.int(s.n), nil).Fields = inner
	return true
}

func (s groupStep) lua(w *luaWriter) {
	w.line("d:group(function()")
	w.block(s.do)
	if s.name == "" {
		w.line("end)")
	} else {
		w.line("end, %q, %s, %s)", s.name, s.at.lua(), s.n.lua())
	}
}

// A hookStep calls a function that is written in both languages.
type hookStep struct {
	name string
	args []expr
}

func hook(name string, args ...string) step { return hookStep{name, parseAll(args)} }

func (s hookStep) run(d *decoder) bool {
	args := make([]any, len(s.args))
	for i, a := range s.args {
		args[i] = d.eval(a.Expr)
	}
	return hooks[s.name](d, args)
}

func (s hookStep) lua(w *luaWriter) {
	w.line("if not H.%s(d, v%s) then return end", s.name, luaList(s.args))
}
