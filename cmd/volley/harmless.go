package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// harmless returns text that does nothing to a terminal, with its line breaks.
func harmless(s string) string {
	if !strings.ContainsFunc(s, obeyed) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, obeyed(r):
			q := strconv.QuoteToASCII(s[i : i+size])
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// obeyed reports whether a terminal may do something else than show a character.
func obeyed(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// harmlessJSON returns compact JSON that escapes what a terminal would obey.
func harmlessJSON(b []byte) []byte {
	var out []byte
	for rest := b; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case unicode.IsPrint(r) && !(r == utf8.RuneError && size == 1):
			out = append(out, rest[:size]...)
		case r > 0xFFFF:
			for _, half := range utf16.AppendRune(nil, r) {
				out = appendEscape(out, half)
			}
		default:
			out = appendEscape(out, uint16(r))
		}
		rest = rest[size:]
	}
	return out
}

// appendEscape appends a unit of UTF-16 as JSON escapes it.
func appendEscape(b []byte, u uint16) []byte { return fmt.Appendf(b, `\u%04x`, u) }
