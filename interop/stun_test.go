package interop

import (
	"context"
	"net"
	"testing"

	"github.com/pion/stun/v3"
	"github.com/stretchr/testify/require"

	"volley"
)

// A STUN client asks for its address over a volley connection.
func TestSTUN(t *testing.T) {
	a, b := pair(t, nil)
	result := make(chan error, 1)
	go func() { result <- answerBinding(b) }()
	local := a.LocalAddr().(*net.UDPAddr)
	client, err := stun.NewClient(a)
	require.NoError(t, err)
	defer client.Close()
	var mapped stun.XORMappedAddress
	request, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.Fingerprint)
	require.NoError(t, err)
	var failed error
	require.NoError(t, client.Do(request, func(e stun.Event) {
		if failed = e.Error; failed == nil {
			failed = mapped.GetFrom(e.Message)
		}
	}))
	require.NoError(t, failed)
	require.Equal(t, local.Port, mapped.Port)
	require.True(t, local.IP.Equal(mapped.IP))
	done(t, result)
}

// answerBinding is a STUN server for one request.
func answerBinding(c *volley.Conn) error {
	b, err := c.ReadMessage(context.Background(), nil)
	if err != nil {
		return err
	}
	request := new(stun.Message)
	if err := stun.Decode(b, request); err != nil {
		return err
	}
	from := c.RemoteAddr().(*net.UDPAddr)
	answer, err := stun.Build(stun.NewTransactionIDSetter(request.TransactionID), stun.BindingSuccess,
		&stun.XORMappedAddress{IP: from.IP, Port: from.Port}, stun.Fingerprint)
	if err != nil {
		return err
	}
	_, err = c.Write(answer.Raw)
	return err
}
