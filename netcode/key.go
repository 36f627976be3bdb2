package netcode

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
)

// A Key is a 256-bit secret. The private key shared by backend and servers is
// one; the keys of a session never leave the package. It prints as a
// placeholder, so that logs don't give it away; MarshalText shows it.
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

// IsZero reports whether k is all zeros, which stands for no key.
func (k Key) IsZero() bool { return k == Key{} }

// String returns a placeholder.
func (k Key) String() string {
	if k.IsZero() {
		return "netcode.Key(none)"
	}
	return "netcode.Key(secret)"
}

// GoString returns a placeholder.
func (k Key) GoString() string { return k.String() }

// LogValue returns a placeholder.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns the key as 64 hexadecimal digits, for storing it.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKey(string(b))
	return err
}
