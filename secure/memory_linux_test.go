package secure

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/netcode"
)

// masked returns a secret under a mask, so that a test that knows it does not hold it.
func masked(secret []byte) []byte {
	b := make([]byte, len(secret))
	for i := range secret {
		b[i] = secret[i] ^ mask
	}
	return b
}

const (
	mask    = 0xa5
	keySize = len(netcode.Key{})
)

// occurrences counts masked secrets in the writable memory of this process. It makes no copy
// of a secret that stays.
func occurrences(t *testing.T, secrets map[string][]byte) map[string]int {
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	mem, err := os.Open("/proc/self/mem")
	require.NoError(t, err)
	defer mem.Close()
	chunk := make([]byte, 1<<20)
	defer clear(chunk)
	found := make(map[string]int)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n != 3 || !strings.HasPrefix(mode, "rw") {
			continue
		}
		for ; from < to; from += int64(len(chunk) - 2*keySize) {
			n, _ := mem.ReadAt(chunk[:min(int64(len(chunk)), to-from)], from)
			for name, m := range secrets {
				found[name] += count(chunk[:n], m)
			}
		}
	}
	return found
}

// count counts a masked secret, except where package chacha20poly1305 has left it.
func count(b, m []byte) (n int) {
	for at := 0; ; at++ {
		i := bytes.IndexByte(b[at:], m[0]^mask)
		if i < 0 || len(b)-at-i < len(m) {
			return n
		}
		at += i
		j := 1
		for j < len(m) && b[at+j]^mask == m[j] {
			j++
		}
		if j == len(m) && !ofLibrary(b[:at], b[at+j:]) {
			n++
		}
	}
}

// ofLibrary reports whether the bytes around a key are those of the cipher's own state. In
// assembly the key stands behind a constant. Where the cipher is written in Go, its
// chacha20.Cipher has a counter of blocks behind the key, at least 2 once it has sealed or
// opened something, and then a nonce, which begins with four zeros in netcode.
func ofLibrary(before, behind []byte) bool {
	if runtime.GOARCH == "amd64" {
		return bytes.HasSuffix(before, []byte("2-byte k")) // of "expand 32-byte k", which a stack may have begun to use again
	}
	if len(behind) < 8 {
		return false
	}
	blocks, nonce := binary.LittleEndian.Uint32(behind), binary.LittleEndian.Uint32(behind[4:])
	return blocks >= 2 && blocks <= netcode.MaxMessageSize/64+4 && nonce == 0
}

// When a session has ended and its token has expired, no key of either is left in the memory
// of the server.
func TestMemoryForgetsKeys(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector keeps copies")
	}
	debug.FreeOSMemory() // there is less to look at
	l := newServer(t, nil)
	p := start(t, "keys", l.URL("127.0.0.1"))
	secrets := make(map[string][]byte)
	for _, name := range []string{"client to server", "server to client"} {
		b, err := hex.DecodeString(p.line(t))
		require.NoError(t, err)
		secrets[name] = b
	}
	c, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 10))
	require.NoError(t, err)
	c.Write([]byte("y"))
	l.keys.mu.Lock()
	secrets["sealing"] = masked(l.keys.all[0].key[:])
	l.keys.mu.Unlock()
	require.Eventually(t, func() bool { // a page may be away
		found := occurrences(t, secrets)
		return found["sealing"] > 0 && found["client to server"] > 0 && found["server to client"] > 0
	}, 30*time.Second, time.Millisecond, "the keys are not there while they are needed: this test finds nothing")

	p.stdin.Close()
	_, err = c.Read(make([]byte, 10))
	require.Equal(t, io.EOF, err)
	require.NoError(t, c.Close())
	p.end(t)
	l.keys.mu.Lock()
	l.keys.setLocked(time.Now().Add(2 * keyPeriod))
	l.keys.mu.Unlock()
	l.sessions.SetKeys()
	runtime.GC()
	for name, n := range occurrences(t, secrets) {
		require.Zero(t, n, "the key %s is still there", name)
	}
}

func init() { processes["keys"] = tellKeys }

// tellKeys is a client that tells the keys of its token, masked.
func tellKeys(args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a := must(parseURL(args[0]))
	tok := must(new(Dialer).token(ctx, a))
	keys := must(tok.MarshalBinary())[atKeys:]
	fmt.Println(hex.EncodeToString(masked(keys[:32])))
	fmt.Println(hex.EncodeToString(masked(keys[32:64])))
	c := must(new(Dialer).join(ctx, a, tok))
	must(c.Write([]byte("x")))
	untilEnd()
	c.Close()
}
