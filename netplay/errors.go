package netplay

import (
	"errors"
	"fmt"
	"reflect"
)

// A ConfigError names a field of a configuration, or an argument, that cannot be used.
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

// A ValueError says why a value, or every value of its type, cannot be a message.
// Nothing of the message was sent.
type ValueError struct {
	Type   reflect.Type // of the message, or the struct with the field; nil for an untyped nil
	Field  string       // the path to the value, such as "Players[3].Name"; "" for the whole
	Reason string       // with the size and the limit
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("netplay: %v%s: %s", e.Type, dotted(e.Field), e.Reason)
}

var (
	errShortBody   = errors.New("body too short") // or a count or length in it too large
	errDecodedSize = errors.New("decoded size over the limit")
	errDepth       = errors.New("nested too deep")
)

// A DecodeError names a property of a body that cannot be read.
type DecodeError struct {
	Type  reflect.Type // of the message
	Field string       // the path to the value, such as "Players[3].Name"
	Err   error        // why
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

// A pathError comes out of nested values. Each level puts its name in front.
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

// valueError turns an error of encoding into a ValueError.
func valueError(t reflect.Type, err error) error {
	path, err := pathOf(err)
	return &ValueError{Type: t, Field: path, Reason: err.Error()}
}

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
