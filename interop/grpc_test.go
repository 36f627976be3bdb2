package interop

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A rawCodec passes messages of bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "raw" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = bytes.Clone(b); return nil }

// echoService has one call that returns its bytes twice, and one that returns a
// stream of messages as they come.
var echoService = grpc.ServiceDesc{
	ServiceName: "Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Twice", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var b []byte
		err := decode(&b)
		b = append(b, b...)
		return &b, err
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Each", ClientStreams: true, ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		for {
			var b []byte
			if err := s.RecvMsg(&b); err != nil {
				if err == io.EOF {
					return nil
				}
				return err
			}
			if err := s.SendMsg(&b); err != nil {
				return err
			}
		}
	}}},
}

// A unary call and a stream of gRPC, with messages larger than its frames.
func TestGRPCOverStream(t *testing.T) {
	l, dial := listenStreams(t)
	s := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}))
	s.RegisterService(&echoService, nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := grpc.NewClient("passthrough:server",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return dial() }))
	require.NoError(t, err)

	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	var got []byte
	require.NoError(t, c.Invoke(t.Context(), "/Echo/Twice", &body, &got))
	require.True(t, bytes.Equal(append(body, body...), got))

	stream, err := c.NewStream(t.Context(), &echoService.Streams[0], "/Echo/Each")
	require.NoError(t, err)
	for size := range 20 {
		b := body[:size*1000]
		require.NoError(t, stream.SendMsg(&b))
		require.NoError(t, stream.RecvMsg(&got))
		require.True(t, bytes.Equal(b, got))
	}
	require.NoError(t, stream.CloseSend())
	require.ErrorIs(t, stream.RecvMsg(&got), io.EOF)

	require.NoError(t, c.Close())
	s.GracefulStop()
	require.NoError(t, <-served)
}
