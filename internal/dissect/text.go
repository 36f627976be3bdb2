package dissect

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// shown is how many bytes of a value are printed.
const shown = 24

// String returns the value in words: at most 24 of many bytes.
func (f *Field) String() string {
	s := text(f.Value, f.Hex)
	if f.Text != "" {
		s += " (" + f.Text + ")"
	}
	return s
}

func text(value any, asHex bool) string {
	switch v := value.(type) {
	case nil:
		return ""
	case uint64:
		if asHex {
			return fmt.Sprintf("%#x", v)
		}
		return strconv.FormatUint(v, 10)
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case string:
		return v
	case []byte:
		return bytesText(v)
	}
	return fmt.Sprint(value)
}

// bytesText shows bytes as digits, and as text where they are that.
func bytesText(b []byte) string {
	head, more := b, ""
	if len(b) > shown {
		head, more = b[:shown], "..."
	}
	s := hex.EncodeToString(head) + more
	for i := range 4 { // a letter may be cut in two
		if t := head[:max(0, len(head)-i)]; printable(t) {
			return s + " " + strconv.Quote(string(t)) + more
		}
		if more == "" {
			break
		}
	}
	return s
}

func printable(b []byte) bool {
	for _, r := range string(b) {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
	}
	return len(b) > 0 && utf8.Valid(b)
}
