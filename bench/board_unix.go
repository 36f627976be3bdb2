//go:build unix

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// canShare tells whether two processes can share a board.
const canShare = true

// newBoardFile makes the file behind a board to share and returns its name.
func newBoardFile() (string, error) {
	f, err := os.CreateTemp("", "volley-bench-")
	if err != nil {
		return "", err
	}
	defer f.Close()
	return f.Name(), f.Truncate(int64(boardSize))
}

// openBoard maps a board that is shared.
func openBoard(name string) (*board, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, boardSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*board)(unsafe.Pointer(&b[0])), nil
}
