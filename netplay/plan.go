package netplay

import (
	"reflect"
	"sync"
	"sync/atomic"
)

// A kind is how a value is written.
type kind uint8

const (
	kindBool kind = iota
	kind8
	kind16
	kind32
	kind64
	kindFloat
	kindString
	kindSlice
	kindStruct  // a struct in place
	kindPointer // a pointer to a struct
	kindBoxed   // a pointer to a number, bool or string
	kindGroup   // several fields of a kind up to kindFloat, see op
)

// A value says how to write and read a Go type.
type value struct {
	kind kind
	min  int          // the fewest bytes it takes on the wire, at least 1
	size int          // the bytes that the Go value takes in place
	typ  reflect.Type // the Go type
	elem *value       // of slices, and what a boxed pointer points to
	plan *plan        // of structs and of pointers to them
}

// A field is one property of a struct.
type field struct {
	value
	offset uintptr
	name   string
	order  int32
}

// A plan is a struct type: its properties in the order of the wire.
type plan struct {
	typ    reflect.Type
	fields []field
	ops    []op // the same, in a form that is fast to walk
	flat   int  // the bytes on the wire if all are numbers and bools, else -1
}

// An op is one property, or several adjacent numbers or bools of one kind.
type op struct {
	offset uintptr
	kind   kind
	count  int // of fields; more than 1 for numbers and bools only
	first  int // the number of the first field
	value  *value
}

func (pl *plan) compileOps() {
	for i := 0; i < len(pl.fields); {
		f := &pl.fields[i]
		o := op{offset: f.offset, kind: f.kind, count: 1, first: i, value: &f.value}
		if n := pl.alike(i); n >= minGroup {
			o.kind, o.count = kindGroup, n
		}
		pl.ops = append(pl.ops, o)
		i += o.count
		if f.kind > kindFloat || pl.flat < 0 || pl.flat+o.count*f.min > maxCount {
			pl.flat = -1
		} else {
			pl.flat += o.count * f.min
		}
	}
}

// minGroup is the number of fields from which a group is faster.
const minGroup = 6

// alike returns how many fields from the i-th on are adjacent and of the same simple kind.
func (pl *plan) alike(i int) int {
	first := &pl.fields[i]
	if first.kind > kindFloat {
		return 1
	}
	n := 1
	for _, f := range pl.fields[i+1:] {
		if f.kind != first.kind || f.offset != first.offset+uintptr(n*f.size) {
			break
		}
		n++
	}
	return n
}

// plans holds a *planResult for each reflect.Type of a struct in use.
var plans sync.Map

type planResult struct {
	plan *plan
	err  error
}

// planFor returns the plan of a struct type. The first call compiles it.
func planFor(t reflect.Type) (*plan, error) {
	if r, ok := plans.Load(t); ok {
		return r.(*planResult).plan, r.(*planResult).err
	}
	c := compiler{make(map[reflect.Type]*plan)}
	p, err := c.structPlan(t)
	r, _ := plans.LoadOrStore(t, &planResult{p, err})
	return r.(*planResult).plan, r.(*planResult).err
}

// A cached entry saves a look into plans for a pointer type that was used before.
type cached struct {
	typ  typeID // of the pointer to the struct
	plan *plan
}

var recent [256]atomic.Pointer[cached]

// recentOf is structOf for a pointer to a recently used type, nil for others.
func recentOf(v any) (*plan, addr) {
	c := recent[cacheSlot(typeOf(v), uint(len(recent)))].Load()
	if c == nil || c.typ != typeOf(v) {
		return nil, nil
	}
	return c.plan, pointerIn(v)
}

// structOf returns the plan and the address of the struct that v points to, or of its copy.
func structOf(v any) (*plan, addr, error) {
	if pl, p := recentOf(v); p != nil {
		return pl, p, nil
	}
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Struct {
		pl, err := planFor(t)
		if err != nil {
			return nil, nil, err
		}
		p := reflect.New(t)
		p.Elem().Set(reflect.ValueOf(v))
		return pl, addr(p.UnsafePointer()), nil
	}
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, nil, &ValueError{Type: t, Reason: "neither a struct nor a pointer to one"}
	}
	pl, err := planFor(t.Elem())
	if err != nil {
		return nil, nil, err
	}
	if pointerIn(v) == nil {
		return nil, nil, &ValueError{Type: t, Reason: "the pointer is nil"}
	}
	recent[cacheSlot(typeOf(v), uint(len(recent)))].Store(&cached{typ: typeOf(v), plan: pl})
	return pl, pointerIn(v), nil
}

func targetOf(v any) (*plan, addr, error) {
	if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Struct {
		return nil, nil, &ValueError{Type: t, Reason: "not a pointer, so that nothing could be read into it"}
	}
	return structOf(v)
}
