package tape

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stub is a test whose failures are looked at.
type stub struct {
	testing.TB
	failures []string
	cleanup  func()
}

func (s *stub) Helper()          {}
func (s *stub) Cleanup(f func()) { s.cleanup = f }
func (s *stub) Failed() bool     { return len(s.failures) > 0 }

func (s *stub) Errorf(format string, args ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *stub) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(s)
}

// play runs a test and returns what it fails with.
func play(test func(p *Tape)) []string {
	s := new(stub)
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(s) {
				panic(r)
			}
		}()
		test(Open(s, "file", "A title\nof two lines."))
	}()
	s.cleanup()
	return s.failures
}

// scenes plays two scenes, of which the second has a number in it.
func scenes(n int) func(p *Tape) {
	return func(p *Tape) {
		s := p.Scene("scene: %d", 1)
		s.Note(1, 2)
		s.Phase("one", "figure", 5, "nothing", 0)
		s.Data([]byte("some data"))
		s.Phase("two", "figure", 6)
		s = p.Scene("other")
		s.Note(int64(n))
		s.Phase("a", "n", 7, "m", n)
		s.Line("a line of its own")
	}
}

// What is played as it was recorded passes; all else fails, and says where.
func TestTape(t *testing.T) {
	t.Chdir(t.TempDir())
	*record = true
	require.Empty(t, play(scenes(1)))
	*record = false
	text, err := os.ReadFile("testdata/file.txt")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), "# A title\n# of two lines.\n# "), "%s", text)
	require.Contains(t, string(text), "\n\nother\n\ta ")
	require.NotContains(t, string(text), "nothing")

	require.Empty(t, play(scenes(1)))
	failures := play(scenes(2))
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], `scene "other" that differs is number 1`)
	require.Contains(t, failures[0], "m=2, want")
	require.NotContains(t, failures[0][strings.Index(failures[0], "That is"):], "n=7", "it is the same")

	short := play(func(p *Tape) {
		s := p.Scene("scene: 1")
		s.Note(1, 2)
		s.Phase("one", "figure", 5)
	})
	require.Len(t, short, 1, "the first is told")
	require.Contains(t, short[0], "has 1 phases, want 2")
	long := play(func(p *Tape) {
		scenes(1)(p)
		p.current.Line("one more")
	})
	require.Len(t, long, 1)
	require.Contains(t, long[0], "has 2 phases, and not this one:\none more")
	missing := play(func(*Tape) {})
	require.Len(t, missing, 2)
	require.Contains(t, strings.Join(missing, "\n"), `the scene "other" is recorded and was not played`)
}

// A scene that is left out stays as it was, when it is compared and when others
// are recorded.
func TestSkip(t *testing.T) {
	t.Chdir(t.TempDir())
	*record = true
	require.Empty(t, play(scenes(1)))
	before, err := os.ReadFile("testdata/file.txt")
	require.NoError(t, err)
	first := func(p *Tape) {
		s := p.Scene("scene: 1")
		s.Note(1, 2)
		s.Phase("one", "figure", 5)
		s.Data([]byte("some data"))
		s.Phase("two", "figure", 6)
		p.Skip("other")
	}
	require.Empty(t, play(first))
	after, err := os.ReadFile("testdata/file.txt")
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	*record = false
	require.Empty(t, play(first))
}

// Every bit of what is noted, and its order, is in the digest.
func TestDigest(t *testing.T) {
	seen := make(map[uint64]string)
	for name, note := range map[string]func(s *Scene){
		"nothing": func(*Scene) {},
		"0":       func(s *Scene) { s.Note(0) },
		"0, 0":    func(s *Scene) { s.Note(0, 0) },
		"1, 2":    func(s *Scene) { s.Note(1, 2) },
		"2, 1":    func(s *Scene) { s.Note(2, 1) },
		"high":    func(s *Scene) { s.Note(-1 << 63) },
		"9 bytes": func(s *Scene) { s.Data([]byte("123456789")) },
		"zeros":   func(s *Scene) { s.Data(make([]byte, 8)) },
		"more":    func(s *Scene) { s.Data(make([]byte, 9)) },
	} {
		s := &Scene{digest: offset}
		note(s)
		require.Empty(t, seen[s.digest], "the digests of %s and of another are the same", name)
		seen[s.digest] = name
	}
}

// The generator is SplitMix64: these are the first numbers of its seed 0.
func TestRand(t *testing.T) {
	r := Rand(0)
	for _, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		require.Equal(t, want, r.Uint64())
	}
	for range 1000 {
		require.Contains(t, []int{3, 4, 5}, r.Between(3, 5))
		require.False(t, r.Chance(0))
		require.True(t, r.Chance(1000))
	}
}
