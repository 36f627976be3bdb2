package netplay

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// tagKey is the key of the struct tag that makes a field a property.
const tagKey = "netplay"

// A compiler makes the plan of one type and of those it contains.
type compiler struct {
	plans map[reflect.Type]*plan // finished and begun
}

func (c *compiler) structPlan(t reflect.Type) (*plan, error) {
	if pl := c.plans[t]; pl != nil {
		return pl, nil // begun further out: the type contains itself
	}
	pl := &plan{typ: t}
	c.plans[t] = pl
	for i := range t.NumField() {
		sf := t.Field(i)
		if err := c.field(pl, sf); err != nil {
			if _, deeper := err.(*ValueError); !deeper {
				err = &ValueError{Type: t, Field: sf.Name, Reason: err.Error()}
			}
			return nil, err
		}
	}
	slices.SortFunc(pl.fields, func(a, b field) int { return cmp.Compare(a.order, b.order) })
	for i := 1; i < len(pl.fields); i++ {
		if f, before := &pl.fields[i], &pl.fields[i-1]; f.order == before.order {
			return nil, &ValueError{Type: t, Field: f.name,
				Reason: fmt.Sprintf("property number %d is also that of field %s", f.order, before.name)}
		}
	}
	pl.compileOps()
	return pl, nil
}

// field adds a field to the plan, if it has a tag.
func (c *compiler) field(pl *plan, sf reflect.StructField) error {
	tag, ok := sf.Tag.Lookup(tagKey)
	if !ok || tag == "-" {
		return nil
	}
	order, err := strconv.ParseInt(tag, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("property number %s is not from %d to %d", tag, math.MinInt32, math.MaxInt32)
	case err != nil:
		return fmt.Errorf("the tag %q is not a property number", tag)
	case !sf.IsExported():
		return errors.New("a property must be an exported field")
	}
	v, err := c.value(sf.Type, nil)
	if err != nil {
		return err
	}
	pl.fields = append(pl.fields, field{value: *v, offset: sf.Offset, name: sf.Name, order: int32(order)})
	return nil
}

// scalars are the kinds of Go that travel as they are. The unsigned ones are
// the same bits as the signed ones of the protocol.
var scalars = map[reflect.Kind]value{
	reflect.Bool:    {kind: kindBool, min: 1},
	reflect.Int8:    {kind: kind8, min: 1},
	reflect.Uint8:   {kind: kind8, min: 1},
	reflect.Int16:   {kind: kind16, min: 2},
	reflect.Uint16:  {kind: kind16, min: 2},
	reflect.Int32:   {kind: kind32, min: 4},
	reflect.Uint32:  {kind: kind32, min: 4},
	reflect.Int64:   {kind: kind64, min: 8},
	reflect.Uint64:  {kind: kind64, min: 8},
	reflect.Float32: {kind: kindFloat, min: 4},
	reflect.String:  {kind: kindString, min: 2},
}

// value says how to write and read t; outer has the slice types that t is an element of.
func (c *compiler) value(t reflect.Type, outer []reflect.Type) (*value, error) {
	v, ok := scalars[t.Kind()]
	v.typ, v.size = t, int(t.Size())
	if ok {
		return &v, nil
	}
	var err error
	switch t.Kind() {
	case reflect.Struct:
		v.kind, v.min = kindStruct, 1
		v.plan, err = c.structPlan(t)
	case reflect.Pointer:
		err = c.pointer(&v)
	case reflect.Slice:
		if slices.Contains(outer, t) {
			return nil, fmt.Errorf("%v contains itself without a bound", t)
		}
		v.kind, v.min = kindSlice, 2
		v.elem, err = c.value(t.Elem(), append(outer, t))
	default:
		err = unsupported(t)
	}
	return &v, err
}

func (c *compiler) pointer(v *value) (err error) {
	elem := v.typ.Elem()
	if scalar, ok := scalars[elem.Kind()]; ok {
		scalar.typ, scalar.size = elem, int(elem.Size())
		v.kind, v.min, v.elem = kindBoxed, scalar.min, &scalar
		return nil
	}
	if elem.Kind() != reflect.Struct {
		return fmt.Errorf("%v: a pointer must point to a struct, a number, a bool or a string", v.typ)
	}
	v.kind, v.min = kindPointer, 1
	v.plan, err = c.structPlan(elem)
	return err
}

func unsupported(t reflect.Type) error {
	hint := ""
	switch t.Kind() {
	case reflect.Float64:
		hint = "; the protocol has no double, use float32"
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		hint = ", since its size depends on the machine; use int32 or int64"
	case reflect.Array:
		hint = "; use a slice"
	case reflect.Map:
		hint = "; use a slice of structs"
	case reflect.Interface:
		hint = ": the type of a value is not on the wire"
	}
	return fmt.Errorf("%v cannot be a property%s", t, hint)
}
