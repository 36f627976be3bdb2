package netcode

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// A Key is a 256-bit secret, such as the private key shared by backend and
// servers. It prints as a placeholder; MarshalText returns the secret.
type Key [keySize]byte

// GenerateKey returns a random key from the operating system's generator.
func GenerateKey() Key {
	var k Key
	rand.Read(k[:]) // never fails: the program would have crashed
	return k
}

var errKeyText = errors.New("netcode: a key is 64 hexadecimal digits")

// ParseKey reads a key from 64 hexadecimal digits.
func ParseKey(s string) (Key, error) {
	var k Key
	if len(s) != 2*keySize {
		return Key{}, errKeyText
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return Key{}, errKeyText
	}
	return k, nil
}

// String returns a placeholder.
func (k Key) String() string {
	if k == (Key{}) {
		return "netcode.Key(none)"
	}
	return "netcode.Key(secret)"
}

// Format writes a placeholder for every verb.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue returns a placeholder.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns the secret as 64 hexadecimal digits, for storing it.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKey(string(b))
	return err
}
