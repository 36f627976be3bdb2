package netplay

import (
	"errors"
	"fmt"
	"reflect"
)

// A ConfigError says which field of a configuration cannot be used.
type ConfigError struct {
	Field  string // such as "Config.MaxFrame"
	Reason string // with the value and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("netplay: invalid %s: %s", e.Field, e.Reason)
}

func configError(field, format string, args ...any) error {
	return &ConfigError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// A TypeError says why values of a Go type cannot be messages, or not under
// this number. It is found when the type is registered or first used.
type TypeError struct {
	Type   reflect.Type // the struct that has the field, or the type itself; nil for an untyped nil
	Field  string       // the name of the field, "" if the type as a whole is the reason
	Reason string
}

func (e *TypeError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("netplay: type %v: %s", e.Type, e.Reason)
	}
	return fmt.Sprintf("netplay: type %v, field %s: %s", e.Type, e.Field, e.Reason)
}

// A ValueError says which value of a message cannot be written. Nothing of the
// message was sent.
type ValueError struct {
	Type   reflect.Type // of the message
	Field  string       // the path to the value, such as "Players[3].Name"
	Reason string       // with the size and the limit
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("netplay: cannot write %v%s: %s", e.Type, dotted(e.Field), e.Reason)
}

// What a [DecodeError] wraps.
var (
	// ErrShortBody means that a body ends before its last property, or that a
	// count or length in it is larger than what follows.
	ErrShortBody = errors.New("body too short")
	// ErrDecodedSize means that the values of a body take more memory than
	// Config.MaxDecoded.
	ErrDecodedSize = errors.New("decoded size over the limit")
	// ErrDepth means that structs are nested deeper than Config.MaxDepth.
	ErrDepth = errors.New("nested too deep")
	// ErrNull means that a number or bool is absent which the Go type has no
	// way to leave out. Dialects V3 and V4 only.
	ErrNull = errors.New("null for a value that cannot be absent")
)

// A DecodeError says which property of a body cannot be read. It wraps one of
// [ErrShortBody], [ErrDecodedSize], [ErrDepth] and [ErrNull].
type DecodeError struct {
	Type  reflect.Type // of the message
	Field string       // the path to the value, such as "Players[3].Name"
	Err   error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("netplay: cannot read %v%s: %v", e.Type, dotted(e.Field), e.Err)
}

func (e *DecodeError) Unwrap() error { return e.Err }

func dotted(path string) string {
	if path == "" || path[0] == '[' {
		return path
	}
	return "." + path
}

// A pathError is on its way out of nested values; each level puts its name in
// front.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }

// within puts the name of a field in front of the path of err.
func within(name string, err error) error {
	pe, ok := err.(*pathError)
	if !ok {
		return &pathError{path: name, err: err}
	}
	pe.path = name + dotted(pe.path)
	return pe
}

// withinElement puts an index in front of the path of err.
func withinElement(i int, err error) error { return within(fmt.Sprintf("[%d]", i), err) }

// valueError turns what encoding returned into a ValueError.
func valueError(t reflect.Type, err error) error {
	path, err := pathOf(err)
	return &ValueError{Type: t, Field: path, Reason: err.Error()}
}

// decodeError turns what decoding returned into a DecodeError.
func decodeError(t reflect.Type, err error) error {
	path, err := pathOf(err)
	return &DecodeError{Type: t, Field: path, Err: err}
}

func pathOf(err error) (string, error) {
	if pe, ok := err.(*pathError); ok {
		return pe.path, pe.err
	}
	return "", err
}
