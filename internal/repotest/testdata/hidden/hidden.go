// Package hidden has methods that a user can call although go doc does not show them.
package hidden

import "volley/internal/wire"

type T struct {
	Field  viaField
	hidden unreached
}

func (T) Method() *viaMethod { return nil }

type (
	Alias   = viaAlias
	Defined viaDefined // inherits no methods
	Batch   = wire.Batch
)

func Func(func([]viaFunc)) {}

type (
	viaField   struct{ embedded }
	viaMethod  struct{}
	viaAlias   struct{}
	viaDefined struct{}
	viaFunc    struct{}
	unreached  struct{}
	embedded   struct{}
)

func (viaField) A()                 {}
func (*viaMethod) B() map[int]twice { return nil }
func (viaAlias) C()                 {}
func (viaDefined) No()              {}
func (viaFunc) D()                  {}
func (unreached) No()               {}

type twice struct{}

func (twice) E()  {}
func (twice) no() {}
