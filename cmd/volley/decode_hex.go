package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"volley/cmd/volley/internal/packets"
)

// Limits of hexadecimal input in bytes.
const (
	maxHexLine     = 1 << 20
	maxHexDatagram = 1 << 20 // also of what a dump says to repeat
)

// hexNoise is what may stand between digits, as in other programs' sources.
var hexNoise = strings.NewReplacer(" ", "", "\t", "", ",", "", ":", "", "0x", "", "0X", "", `\x`, "", `"`, "", "{", "", "}", "", ";", "")

// parseHex reads hexadecimal digits.
func parseHex(s string) ([]byte, error) {
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

// dumpLine matches a line of a dump: an offset, and what comes behind it. Without
// a colon an offset has seven or eight digits, as hexdump writes it.
var dumpLine = regexp.MustCompile(`^\s*(?:(0x)?([0-9a-fA-F]{4,8}):|([0-9a-fA-F]{7,8})(?: |$))(.*)$`)

// A hexReader puts the lines of dumps together.
type hexReader struct {
	emit func([]byte) error
	dump []byte // of the datagram that is being read, if inDump
	last []byte // of its last line

	inDump  bool
	repeats bool // a * was read: the last line fills up to the next offset
	tcpdump bool // the offsets are those of tcpdump
}

// readHex calls emit for every datagram in a text.
func readHex(r io.Reader, emit func([]byte) error) error {
	h := hexReader{emit: emit}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxHexLine)
	n := 0
	for lines.Scan() {
		n++
		if err := h.line(lines.Text()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %s", n+1, formatSize(maxHexLine))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return h.end()
}

// line takes one line.
func (h *hexReader) line(line string) error {
	if at := strings.IndexByte(line, '#'); at >= 0 && !h.inDump {
		line = line[:at]
	}
	line = strings.TrimRight(line, " \t\r")
	if m := dumpLine.FindStringSubmatch(line); m != nil {
		if offset, err := strconv.ParseUint(m[2]+m[3], 16, 32); err == nil {
			if handled, err := h.dumpLine(int64(offset), m[4], m[3] == "", m[1] != ""); handled || err != nil {
				return err
			}
		}
	}
	switch trimmed := strings.TrimSpace(line); {
	case trimmed == "*" && h.inDump:
		h.repeats = true
		return nil
	case trimmed == "":
		return h.end()
	case strings.Contains(trimmed, " > "): // what tcpdump prints in front of a packet
		return h.end()
	}
	if err := h.end(); err != nil {
		return err
	}
	b, err := parseHex(line)
	if err != nil {
		return err
	}
	return h.emit(b)
}

// dumpLine takes a line with an offset. It reports false for a line that only
// looks like one: digits that happen to begin like that.
func (h *hexReader) dumpLine(offset int64, rest string, colon, tcpdump bool) (handled bool, err error) {
	if offset == 0 && !h.repeats {
		if err := h.end(); err != nil {
			return true, err
		}
		h.inDump, h.tcpdump = true, tcpdump
	}
	if !h.inDump {
		if colon {
			return true, fmt.Errorf("a dump begins at offset %#x, not at 0", offset)
		}
		return false, nil
	}
	if h.repeats && len(h.last) > 0 {
		if offset > maxHexDatagram {
			return true, fmt.Errorf("offset %#x is beyond the limit of %s", offset, formatSize(maxHexDatagram))
		}
		for int64(len(h.dump)) < offset {
			h.dump = append(h.dump, h.last...)
		}
	}
	h.repeats = false
	if int64(len(h.dump)) != offset {
		return true, fmt.Errorf("offset %#x follows %s; is a line missing?", offset, plural(len(h.dump), "byte", "bytes"))
	}
	rest = dumpDigits(rest, colon)
	if rest == "" { // hexdump ends with the offset alone
		return true, nil
	}
	if h.last, err = parseHex(rest); err != nil {
		return true, err
	}
	if h.dump = append(h.dump, h.last...); len(h.dump) > maxHexDatagram {
		return true, fmt.Errorf("a datagram is longer than %s", formatSize(maxHexDatagram))
	}
	return true, nil
}

// dumpDigits returns the digits of a dump's line, without what it shows as text.
func dumpDigits(rest string, colon bool) string {
	rest = strings.TrimLeft(rest, " \t")
	if !colon {
		rest, _, _ = strings.Cut(rest, "|")
		return rest
	}
	rest, _, _ = strings.Cut(rest, "  ")
	return rest
}

// end hands over the datagram of a dump.
func (h *hexReader) end() error {
	b := h.dump
	inDump, tcpdump := h.inDump, h.tcpdump
	*h = hexReader{emit: h.emit}
	if !inDump || len(b) == 0 {
		return nil
	}
	if tcpdump {
		b = insidePacket(b)
	}
	return h.emit(bytes.Clone(b))
}

// insidePacket returns the UDP payload of a packet that tcpdump has shown, with
// what is in front of IP or without it, or b itself if there is none.
func insidePacket(b []byte) []byte {
	for _, link := range []uint32{packets.LinkRaw, packets.LinkEthernet} {
		if s, kind := packets.Parse(link, b); kind == packets.Whole && s.Missing == 0 && !s.TCP {
			return s.Payload
		}
	}
	return b
}
