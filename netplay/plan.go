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

// A plan is a struct type, ready to be written and read: its properties in
// the order of the wire.
type plan struct {
	typ    reflect.Type
	fields []field
}

// plans holds a *planResult for each reflect.Type of a struct that was asked
// for.
var plans sync.Map

type planResult struct {
	plan *plan
	err  error
}

// planFor returns the plan of a struct type. The first call for a type compiles
// it.
func planFor(t reflect.Type) (*plan, error) {
	if r, ok := plans.Load(t); ok {
		return r.(*planResult).plan, r.(*planResult).err
	}
	c := compiler{make(map[reflect.Type]*plan)}
	p, err := c.structPlan(t)
	r, _ := plans.LoadOrStore(t, &planResult{p, err})
	return r.(*planResult).plan, r.(*planResult).err
}

// A cached entry spares a look into plans for a pointer type that was used
// before.
type cached struct {
	typ  typeID // of the pointer to the struct
	plan *plan
}

var recent [256]atomic.Pointer[cached]

// structOf returns the plan of the struct that v is or points to, and the
// address of the struct, or of a copy if v is a struct itself.
func structOf(v any) (*plan, addr, error) {
	slot := &recent[cacheSlot(typeOf(v), uint(len(recent)))]
	if c := slot.Load(); c != nil && c.typ == typeOf(v) {
		if p := pointerIn(v); p != nil {
			return c.plan, p, nil
		}
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
		return nil, nil, &TypeError{Type: t, Reason: "neither a struct nor a pointer to one"}
	}
	pl, err := planFor(t.Elem())
	if err != nil {
		return nil, nil, err
	}
	if pointerIn(v) == nil {
		return nil, nil, &ValueError{Type: t, Reason: "the pointer is nil"}
	}
	slot.Store(&cached{typ: typeOf(v), plan: pl})
	return pl, pointerIn(v), nil
}

// targetOf is structOf for a struct to be read into.
func targetOf(v any) (*plan, addr, error) {
	if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Struct {
		return nil, nil, &TypeError{Type: t, Reason: "not a pointer, so that nothing could be read into it"}
	}
	return structOf(v)
}
