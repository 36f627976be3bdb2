package interop

import (
	"testing"

	"github.com/pion/logging"
	"github.com/pion/sctp"
	"github.com/stretchr/testify/require"
)

// SCTP makes streams in order of volley's messages: a message of 60 KB and
// many small ones, both ways.
func TestSCTP(t *testing.T) {
	a, b := pair(t, nil)
	logger := sctp.WithLoggerFactory(logging.NewDefaultLoggerFactory())
	result := make(chan error, 1)
	go func() {
		result <- func() error {
			assoc, err := sctp.ServerWithOptions(sctp.WithNetConn(b), logger)
			if err != nil {
				return err
			}
			s, err := assoc.AcceptStream()
			if err != nil {
				return err
			}
			buf := make([]byte, 128<<10)
			for range 101 {
				n, err := s.Read(buf)
				if err != nil {
					return err
				}
				if _, err := s.WriteSCTP(buf[:n], sctp.PayloadTypeWebRTCBinary); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	assoc, err := sctp.ClientWithOptions(sctp.WithNetConn(a), logger)
	require.NoError(t, err)
	s, err := assoc.OpenStream(1, sctp.PayloadTypeWebRTCBinary)
	require.NoError(t, err)
	_, err = s.Write(message(60 << 10))
	require.NoError(t, err)
	for i := range 100 {
		_, err = s.Write(message(i + 1))
		require.NoError(t, err)
	}
	buf := make([]byte, 128<<10)
	n, err := s.Read(buf)
	require.NoError(t, err)
	require.Equal(t, message(60<<10), buf[:n])
	for i := range 100 {
		n, err = s.Read(buf)
		require.NoError(t, err)
		require.Equal(t, message(i+1), buf[:n])
	}
	done(t, result)
}
