//go:build !unix

package main

import "errors"

// canShare tells whether two processes can share a board.
const canShare = false

func newBoardFile() (string, error)    { return "", errors.ErrUnsupported }
func openBoard(string) (*board, error) { return nil, errors.ErrUnsupported }
