package socket

import (
	"errors"
	"slices"
	"syscall"
)

// IsRefused tells whether err is one of those by which the other side's machine
// says that nobody listens on the port. Anybody may have sent that: it is a
// hint.
func IsRefused(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(refusedErrnos, errno)
}
