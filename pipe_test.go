package volley

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/internal/inbox"
)

// A pipe loses nothing, however few bytes of the ReadBuffer are left over when
// its writer has to wait.
func TestPipeFullLosesNothing(t *testing.T) {
	const size, fit, messages = 100, 20, 50
	for over := size; over <= size+inbox.NumberedOverhead; over++ { // nearly one more, and one more
		synctest.Test(t, func(t *testing.T) {
			a, b := Pipe(&Config{
				MaxMessageSize: size, ReadBuffer: fit*(size+inbox.NumberedOverhead) + over,
			})
			defer a.Close()
			defer b.Close()
			go func() {
				for i := range byte(messages) {
					if _, err := a.Write(append(make([]byte, size-1), i)); err != nil {
						t.Error(err)
					}
				}
			}()
			synctest.Wait() // it waits for room
			p := make([]byte, size)
			for i := range byte(messages) {
				_, err := b.Read(p)
				require.NoError(t, err)
				require.Equal(t, i, p[size-1])
				synctest.Wait()
			}
			require.Zero(t, b.Stats().MessagesRefused)
		})
	}
}
