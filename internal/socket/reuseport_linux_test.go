package socket

import (
	"context"
	"net"
	"testing"
)

func TestReusePortControl(t *testing.T) {
	lc := net.ListenConfig{Control: ReusePortControl}
	first, err := lc.ListenPacket(context.Background(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := lc.ListenPacket(context.Background(), "udp4", first.LocalAddr().String())
	if err != nil {
		t.Fatalf("second socket on %v: %v, want nil", first.LocalAddr(), err)
	}
	second.Close()
}
