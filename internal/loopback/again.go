package loopback

import "time"

// Again listens where something has just been closed. For a moment the address may
// still be in use: a Close that does not wait for the goroutine that handles packets
// frees it only then. Again tries until listen succeeds, for up to 20 seconds, and
// returns its last result.
func Again[T any](listen func() (T, error)) (T, error) {
	end := time.Now().Add(20 * time.Second)
	for {
		l, err := listen()
		if err == nil || time.Now().After(end) {
			return l, err
		}
		time.Sleep(time.Millisecond)
	}
}
