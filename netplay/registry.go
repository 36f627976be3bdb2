package netplay

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
)

// DefaultCompress is the length of a body in bytes from which compression
// makes English text shorter for certain.
const DefaultCompress = 100

// A TypeOption is a setting of one message type, given to [Registry.Add].
type TypeOption func(*messageType)

// Compress has bodies of the type compressed that are at least threshold bytes
// long, if that makes them shorter. 0 stands for [DefaultCompress], and a
// negative number for never, which is what a type without this option does.
// Reading does not depend on it. Dialects V3 and V4 never compress.
func Compress(threshold int) TypeOption {
	if threshold == 0 {
		threshold = DefaultCompress
	}
	return func(t *messageType) { t.threshold = max(0, threshold) }
}

// A messageType is a type as it was registered.
type messageType struct {
	number    uint16
	plan      *plan
	threshold int // of the body, to compress it; 0 for never
}

// A Registry knows message types by their numbers. It is safe for concurrent
// use, and both sides of a connection need the same types in theirs.
type Registry struct {
	mu    sync.Mutex // of those who add
	types atomic.Pointer[types]
}

// types is what a Registry holds. It is replaced when a type is added.
type types struct {
	byNumber map[uint16]*messageType
	byPlan   map[*plan]*messageType
}

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry {
	r := new(Registry)
	r.types.Store(&types{make(map[uint16]*messageType), make(map[*plan]*messageType)})
	return r
}

// Add registers the type of v, a struct or a pointer to one, for messages of
// this number, from 0 to 65535.
//
// Properties are the exported fields with a tag that holds the property number,
// such as `netplay:"0"`. The error is a [*TypeError] if the type has fields
// that the format has no values for, or twice the same property number, or if
// the message number or the type are taken.
func (r *Registry) Add(number int, v any, opts ...TypeOption) error {
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return &TypeError{Type: t, Reason: "neither a struct nor a pointer to one"}
	}
	pl, err := planFor(t)
	if err != nil {
		return err
	}
	if number < 0 || number > maxCount {
		return &TypeError{Type: t, Reason: fmt.Sprintf("message number %d is not from 0 to %d", number, maxCount)}
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
	old := r.types.Load()
	if other := old.byNumber[mt.number]; other != nil {
		return &TypeError{Type: mt.plan.typ, Reason: fmt.Sprintf("message number %d is that of %v", mt.number, other.plan.typ)}
	}
	if other := old.byPlan[mt.plan]; other != nil {
		return &TypeError{Type: mt.plan.typ, Reason: fmt.Sprintf("already registered for number %d", other.number)}
	}
	next := &types{maps.Clone(old.byNumber), maps.Clone(old.byPlan)}
	next.byNumber[mt.number] = mt
	next.byPlan[mt.plan] = mt
	r.types.Store(next)
	return nil
}

// MustAdd is like [Registry.Add] but panics instead of returning an error. It
// is for types known when the program is written.
func (r *Registry) MustAdd(number int, v any, opts ...TypeOption) {
	if err := r.Add(number, v, opts...); err != nil {
		panic(err)
	}
}

// Number returns the message number of the type of v, a struct or a pointer to
// one.
func (r *Registry) Number(v any) (number uint16, ok bool) {
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	mt := r.typeOf(t)
	if mt == nil {
		return 0, false
	}
	return mt.number, true
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
	return r.types.Load().byPlan[pl]
}

// New returns a pointer to a new zero message of the type that has the number,
// or nil if there is none.
func (r *Registry) New(number uint16) any {
	mt := r.types.Load().byNumber[number]
	if mt == nil {
		return nil
	}
	return reflect.New(mt.plan.typ).Interface()
}
