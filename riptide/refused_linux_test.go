package riptide

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// The error of Connect tells of a machine that says that nobody listens.
func TestConnectRefused(t *testing.T) {
	pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback.Host().AsSlice()})
	require.NoError(t, err)
	addr := pc.LocalAddr().String()
	pc.Close()
	c := Client{Config: &Config{HeartbeatInterval: 20 * time.Millisecond}}
	err = c.Connect(context.Background(), "udp4", addr)
	ce, ok := errors.AsType[*DisconnectError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, NoAnswer, ce.Reason)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.True(t, strings.Contains(err.Error(), "no answer; the socket's last error: "), err.Error())
}
