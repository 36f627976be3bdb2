package netplay

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
)

// A TypeOption is an option of a message type, for [Registry.Add].
type TypeOption func(*messageType)

// Compress compresses bodies of the type that have at least threshold bytes, if that
// makes them shorter. 0 means 100 bytes, from which English text gets shorter. Negative:
// never, as without this option. Compressed bodies can be read in any case.
func Compress(threshold int) TypeOption {
	return func(t *messageType) { t.threshold = max(0, cmp.Or(threshold, 100)) }
}

// A messageType is a type as it was registered.
type messageType struct {
	number    uint16
	plan      *plan
	threshold int // of the body, to compress it; 0 for never
}

// A Registry knows message types by their numbers. Both sides of a connection need the
// same types. The zero value is empty and ready to use. A Registry is safe for
// concurrent use and must not be copied.
type Registry struct {
	mu    sync.Mutex // of Add
	types atomic.Pointer[types]
}

// types is the content of a Registry. It is replaced when a type is added.
type types struct {
	byNumber map[uint16]*messageType
	byPlan   map[*plan]*messageType
}

var noTypes types

// load returns the present content.
func (r *Registry) load() *types { return cmp.Or(r.types.Load(), &noTypes) }

// Add registers the type of v, a struct or a pointer to one, for messages of this
// number, from 0 to 65535.
//
// Properties are the exported fields with a tag that holds the property number, such as
// `netplay:"0"`. The error is a *[ValueError] if the format has no values for a field, if
// a property number is there twice, or if the message number or the type is taken.
func (r *Registry) Add(number int, v any, opts ...TypeOption) error {
	t := elemOf(v)
	if t == nil || t.Kind() != reflect.Struct {
		return &ValueError{Type: t, Reason: "neither a struct nor a pointer to one"}
	}
	pl, err := planFor(t)
	if err != nil {
		return err
	}
	if number < 0 || number > maxCount {
		return &ValueError{Type: t, Reason: fmt.Sprintf("message number %d is not from 0 to %d", number, maxCount)}
	}
	mt := &messageType{number: uint16(number), plan: pl}
	for _, o := range opts {
		o(mt)
	}
	return r.add(mt)
}

func (r *Registry) add(mt *messageType) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.load()
	if other := old.byNumber[mt.number]; other != nil {
		return &ValueError{Type: mt.plan.typ, Reason: fmt.Sprintf("message number %d belongs to %v", mt.number, other.plan.typ)}
	}
	if other := old.byPlan[mt.plan]; other != nil {
		return &ValueError{Type: mt.plan.typ, Reason: fmt.Sprintf("already registered for number %d", other.number)}
	}
	next := &types{map[uint16]*messageType{}, map[*plan]*messageType{}}
	maps.Copy(next.byNumber, old.byNumber)
	maps.Copy(next.byPlan, old.byPlan)
	next.byNumber[mt.number] = mt
	next.byPlan[mt.plan] = mt
	r.types.Store(next)
	return nil
}

// MustAdd is [Registry.Add], but panics instead of returning an error.
func (r *Registry) MustAdd(number int, v any, opts ...TypeOption) {
	if err := r.Add(number, v, opts...); err != nil {
		panic(err)
	}
}

// elemOf returns the type of v, or that to which it points.
func elemOf(v any) reflect.Type {
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// typeOf returns the registered struct type t, or nil.
func (r *Registry) typeOf(t reflect.Type) *messageType {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	pl, err := planFor(t)
	if err != nil {
		return nil
	}
	return r.load().byPlan[pl]
}
