package netplay

import (
	"reflect"
	"unsafe"
)

// Only this file of the package uses unsafe. Its functions read and write fields at offsets
// that package reflect gave for the type, so they stay inside the value, and each write has
// the size of the field. access_test.go compares them with package reflect.

// An addr is the address of a value or a field. It keeps the value alive.
type addr unsafe.Pointer

// fieldAt returns the address of the field at an offset.
func fieldAt(p addr, offset uintptr) addr { return addr(unsafe.Add(unsafe.Pointer(p), offset)) }

func get8(p addr) uint8       { return *(*uint8)(p) }
func get16(p addr) uint16     { return *(*uint16)(p) }
func get32(p addr) uint32     { return *(*uint32)(p) }
func get64(p addr) uint64     { return *(*uint64)(p) }
func getString(p addr) string { return *(*string)(p) }
func getPointer(p addr) addr  { return *(*addr)(p) }

func set8(p addr, v uint8)       { *(*uint8)(p) = v }
func set16(p addr, v uint16)     { *(*uint16)(p) = v }
func set32(p addr, v uint32)     { *(*uint32)(p) = v }
func set64(p addr, v uint64)     { *(*uint64)(p) = v }
func setBool(p addr, v bool)     { *(*bool)(p) = v }
func setString(p addr, v string) { *(*string)(p) = v }
func setPointer(p, v addr)       { *(*addr)(p) = v }

// A sliceHeader is the memory of a slice.
type sliceHeader struct {
	data addr
	len  int
	cap  int
}

// getSlice returns the first element's address, and the length.
func getSlice(p addr) (data addr, n int) {
	h := (*sliceHeader)(p)
	return h.data, h.len
}

func getStrings(p addr) []string { return *(*[]string)(p) }

// fields returns n adjacent fields from p on, with the size of T.
func fields[T uint8 | uint16 | uint32 | uint64](p addr, n int) []T { return unsafe.Slice((*T)(p), n) }

// makeNumbers gives the slice at p n zeros of a size of 1, 2, 4 or 8, and returns their address.
func makeNumbers(p addr, size, n int) addr {
	switch size {
	case 1:
		*(*[]uint8)(p) = make([]uint8, n)
	case 2:
		*(*[]uint16)(p) = make([]uint16, n)
	case 4:
		*(*[]uint32)(p) = make([]uint32, n)
	default:
		*(*[]uint64)(p) = make([]uint64, n)
	}
	return (*sliceHeader)(p).data
}

// makeSliceOf gives the slice of type t at p n zero elements, and returns the first's address.
func makeSliceOf(t reflect.Type, p addr, n int) addr {
	v := reflect.NewAt(t, unsafe.Pointer(p)).Elem()
	if n == 0 {
		v.Set(reflect.MakeSlice(t, 0, 0))
	} else {
		v.SetZero()
		v.Grow(n)
		v.SetLen(n)
	}
	return (*sliceHeader)(p).data
}

// makeStruct returns the address of a new zero value of type t.
func makeStruct(t reflect.Type) addr { return addr(reflect.New(t).UnsafePointer()) }

// setZero makes the value of type t at p zero.
func setZero(t reflect.Type, p addr) { reflect.NewAt(t, unsafe.Pointer(p)).Elem().SetZero() }

// A typeID stands for a type in this run of the program.
type typeID unsafe.Pointer

// An eface is the memory of an any: the dynamic type, and the value if it is a pointer.
type eface struct {
	typ  typeID
	data addr
}

// typeOf returns the type of v, nil for a nil v.
func typeOf(v any) typeID { return (*eface)(unsafe.Pointer(&v)).typ }

// pointerIn returns the pointer that v holds. The dynamic type must be a pointer.
func pointerIn(v any) addr { return (*eface)(unsafe.Pointer(&v)).data }

// cacheSlot returns a hash of typ below n, which must be a power of two.
func cacheSlot(typ typeID, n uint) uint {
	return uint(uint64(uintptr(typ))*0x9e3779b97f4a7c15>>40) & (n - 1)
}

// The layout of sliceHeader is that of a slice.
var _ = [1]struct{}{}[unsafe.Sizeof(sliceHeader{})-unsafe.Sizeof([]byte(nil))]
