package reliable

import (
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"volley/internal/tape"
	"volley/internal/testenv"
)

const recordedTitle = "What comes out of two endpoints in the scenes of recorded_scenes_test.go, a line for each\n" +
	"side of each phase: plain figures, and digests (after a colon) of all that left, at which time\n" +
	"and in which order."

// TestRecorded plays scenes in virtual time and compares all that comes out of
// their endpoints with what came out when the scenes were recorded.
func TestRecorded(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "386" {
		t.Skip("the digests hold every bit of the figures, and other processors may multiply and add in one step")
	}
	file := tape.Open(t, "recorded", recordedTitle)
	for _, sc := range scenes {
		switch {
		case strconv.IntSize < 64 && strings.HasSuffix(sc.name, only64):
			file.Skip(sc.name) // limits in bytes mean something else with pointers of 4 bytes
			continue
		case testenv.Race && slices.Contains(longScenes, sc.name):
			file.Skip(sc.name) // the race detector finds nothing where there is one goroutine
			continue
		}
		lines := sc.run(t)
		to := file.Scene("%s", sc.name)
		for _, line := range lines {
			to.Line(strings.TrimPrefix(line, sc.name+"/"))
		}
	}
}

// longScenes are those with the most packets.
var longScenes = []string{
	"reference-odd", "reference-tiny", "reference-guarded", "reference-one", "flood", "one-way", "grid", "echo",
	"clockwork-midstream", "clockwork-reference", "restart-midstream", "game-slow-acks", "pieces-plain", "silence",
}

// chance is true so many times of a thousand, and takes no number if that is never.
func chance(r *tape.Rand, n int) bool { return n > 0 && r.Chance(n) }

var noise = func() []byte {
	r := tape.Rand(1)
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
	return b
}()

// A tally counts something and keeps a digest of it.
type tally struct {
	n, bytes int
	sum      uint64
}

func (t *tally) add(values ...uint64) {
	for _, v := range values {
		t.sum = (t.sum ^ v) * 0x9e3779b97f4a7c15
		t.sum ^= t.sum >> 29
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (t *tally) data(b []byte, values ...uint64) {
	t.n++
	t.bytes += len(b)
	t.add(values...)
	t.add(uint64(len(b)), uint64(crc32.Checksum(b, castagnoli)))
}

func (t *tally) digest() string { return fmt.Sprintf("%06x", (t.sum^t.sum>>32)&0xffffff) }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
