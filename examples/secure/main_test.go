package main

import (
	"errors"
	"net"
	"strings"
	"testing"

	"volley/secure"
)

func TestSecure(t *testing.T) {
	ln, err := secure.Listen("udp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- serve(ln) }()
	var out strings.Builder
	send(ln.URL("127.0.0.1"), []string{"hello", "encrypted", "world"}, &out)
	if out.String() != "hello\nencrypted\nworld\n" {
		t.Errorf("output %q", &out)
	}
	ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve = %v", err)
	}
}
