package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxHexLine is the longest line of hexadecimal digits in bytes.
const maxHexLine = 1 << 20

// hexNoise is what may stand between digits, as in other programs' sources.
var hexNoise = strings.NewReplacer(" ", "", "\t", "", ",", "", ":", "", "0x", "", "0X", "", `\x`, "", `"`, "", "{", "", "}", "", ";", "")

// parseHex reads hexadecimal digits.
func parseHex(s string) ([]byte, error) {
	if strings.Contains(s, ": ") {
		return nil, errors.New(`offsets are no part of a datagram; "xxd -p" prints digits alone`)
	}
	digits := hexNoise.Replace(s)
	b, err := hex.DecodeString(digits)
	var invalid hex.InvalidByteError
	switch {
	case errors.As(err, &invalid):
		return nil, fmt.Errorf("%q is not a hexadecimal digit", rune(invalid))
	case errors.Is(err, hex.ErrLength):
		return nil, fmt.Errorf("%d hexadecimal digits are not a whole number of bytes", len(digits))
	case len(b) == 0:
		return nil, errors.New("there are no hexadecimal digits")
	}
	return b, nil
}

// readHex reads a datagram from each line. What follows # is a comment.
func readHex(r io.Reader, emit func([]byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxHexLine)
	n := 0
	for lines.Scan() {
		n++
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		b, err := parseHex(line)
		if err == nil {
			err = emit(b)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %s", n+1, formatSize(maxHexLine))
	}
	return lines.Err()
}
