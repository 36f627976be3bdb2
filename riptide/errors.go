package riptide

import "errors"

var (
	// ErrLayout is the error of using messages of one layout with the other.
	ErrLayout = errors.New("riptide: message of another layout")

	errNotConnected = errors.New("riptide: not connected")
)
