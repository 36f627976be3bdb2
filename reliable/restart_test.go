package reliable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A restarter is one end of a connection whose other end is restarted. Its messages
// begin with a number that no other message has.
type restarter struct {
	*Endpoint
	got   map[uint32]int // messages received, how often
	sent  map[uint64]uint32
	fates map[uint32]Fate
	full  bool                // refuses all messages
	room  func(size int) bool // nil: for all messages
	out   Batch
}

var restartConfig = &Config{MaxWindow: 16384, JumpGuard: true, AckGuard: true, AckRefused: true, MidStream: true, AckBuffer: -1,
	AckDelay: 125 * time.Millisecond, FragmentAbove: 1000}

func newRestarter(t testing.TB, now time.Time, sequence uint16) *restarter {
	const usual = 200 // messages: a map that grows takes longer
	r := &restarter{Endpoint: new(Endpoint), got: make(map[uint32]int, usual), sent: make(map[uint64]uint32, usual), fates: make(map[uint32]Fate, usual)}
	require.NoError(t, r.Init(restartConfig, now, firstID+uint64(sequence), r))
	return r
}

func (r *restarter) HandleMessage(_ uint16, payload []byte) bool {
	if r.full || r.room != nil && !r.room(len(payload)) {
		return false
	}
	if len(payload) > 0 {
		r.got[binary.LittleEndian.Uint32(payload)]++
	}
	return true
}

func (r *restarter) HandleFate(id uint64, fate Fate, _ time.Duration) { r.fates[r.sent[id]] = fate }

// message returns the datagrams of a message, which is not given to anybody.
func (r *restarter) message(now time.Time, number uint32, size int) [][]byte {
	r.sent[r.NextID()] = number
	r.out.Reset()
	payload := make([]byte, size)
	binary.LittleEndian.PutUint32(payload, number)
	if _, err := r.Send(now, payload, &r.out); err != nil {
		panic(err)
	}
	return r.taken()
}

func (r *restarter) taken() (all [][]byte) {
	for i := range r.out.Len() {
		all = append(all, append([]byte(nil), r.out.At(i)...))
	}
	r.out.Reset()
	return all
}

// take receives datagrams, and returns what answers them at once.
func (r *restarter) take(now time.Time, datagrams [][]byte) (answers [][]byte) {
	for _, d := range datagrams {
		r.Receive(now, d)
		for r.Inner().ControlPresses() {
			if wait, due := r.ControlDue(now); !due || wait > 0 {
				break
			}
			r.SendControl(now, &r.out)
		}
	}
	if r.Inner().InquiryDue(now) {
		r.Inner().SendInquiry(now, &r.out)
	}
	return r.taken()
}

// pump exchanges what is due until nothing is left, and returns the time after d.
func pump(now time.Time, d time.Duration, a, b *restarter, toA, toB [][]byte) time.Time {
	for end := now.Add(d); ; now = now.Add(5 * time.Millisecond) {
		for len(toA)+len(toB) > 0 {
			toA, toB = b.take(now, toB), a.take(now, toA)
		}
		if !now.Before(end) {
			return now
		}
		for _, r := range []*restarter{a, b} {
			if wait, due := r.ControlDue(now); due && wait == 0 {
				r.SendControl(now, &r.out)
			}
			r.Update(now)
		}
		toB, toA = a.taken(), b.taken()
	}
}

// talkedTo returns a client that has exchanged n messages with a server, the last of
// which had the sequence newest.
func talkedTo(t testing.TB, now time.Time, server uint16, newest uint16, n int) (s, c *restarter, at time.Time) {
	c, s = newRestarter(t, now, newest-uint16(n)+1), newRestarter(t, now, server)
	for i := range uint32(n) {
		now = now.Add(10 * time.Millisecond)
		s.take(now, c.message(now, i, 8))
		now = now.Add(10 * time.Millisecond)
		c.take(now, s.message(now, i, 8))
	}
	require.Len(t, s.got, n)
	require.Len(t, c.got, n)
	clear(s.got)
	return s, c, now
}

func randomStart(r *rand.Rand) uint16 { return 1 + uint16(r.IntN(32_511)) }

// A client that is restarted at once, on the same port, is heard from its first message
// on, whatever its old sequence was and its new one is. Of the messages that it writes
// at once, at most one in a thousand is Delivered falsely because of the server's
// acknowledgements for its predecessor that were on their way.
func TestRestartAtEachOldSequence(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 1))
	const burst, later = 100, 1000
	step := 1
	if testing.Short() {
		step = 61
	}
	var messages, falsely, unheard, lost, runs int
	for old := 0; old < 65536; old += step {
		s, _, now := talkedTo(t, someTime, randomStart(r), uint16(old), 40)
		late := s.message(now, 1, 8) // meant for the predecessor
		c := newRestarter(t, now, randomStart(r))
		var toS [][]byte
		for i := range uint32(burst) {
			toS = append(toS, c.message(now, later+i, 8)...)
		}
		toS = append(toS, c.take(now, late)...)
		for number, fate := range c.fates {
			if fate == FateDelivered && s.got[number] == 0 {
				falsely++
			}
		}
		now = pump(now.Add(20*time.Millisecond), 500*time.Millisecond, s, c, toS, nil)
		for i := range uint32(20) { // one way
			now = pump(now, 20*time.Millisecond, s, c, c.message(now, later+burst+i, 8), nil)
		}
		pump(now, 2*time.Second, s, c, nil, nil)
		for number := uint32(later); number < later+burst+20; number++ {
			messages++
			switch {
			case s.got[number] > 1:
				t.Fatalf("old %d: message %d was received %d times", old, number, s.got[number])
			case s.got[number] == 0:
				unheard++
			case c.fates[number] != FateDelivered:
				lost++
			}
		}
		runs++
	}
	t.Logf("%d restarts, %d messages: %d falsely Delivered, %d unheard, %d falsely Lost", runs, messages, falsely, unheard, lost)
	require.LessOrEqual(t, falsely*1000, runs*burst, "falsely Delivered")
	require.LessOrEqual(t, unheard*100, messages, "unheard")
	require.LessOrEqual(t, lost*100, messages, "falsely Lost")
}

// A restart goes well over a link that loses and delays, whoever speaks, after talks of
// all lengths and with messages in fragments: nothing is received twice or falsely
// Delivered, and soon all is well.
func TestRestartInTrouble(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 2))
	runs := 200
	if testing.Short() {
		runs = 40
	}
	unheard := 0
	for run := range runs {
		n := []int{1, 5, 40, 300, 5000, 40_000}[run%6]
		if n == 40_000 && testing.Short() {
			n = 2000
		}
		s, _, now := talkedTo(t, someTime, randomStart(r), randomStart(r)+uint16(n), n)
		now = now.Add(50 * time.Millisecond)
		c := newRestarter(t, now, randomStart(r))
		size := []int{8, 3000}[r.IntN(2)]
		speaks, loss := r.IntN(2) == 0, []float64{0, 0.1}[r.IntN(2)]
		lossy := func(all [][]byte) (some [][]byte) {
			for _, d := range all {
				if r.Float64() >= loss {
					some = append(some, d)
				}
			}
			return some
		}
		const first, messages = 1 << 20, 100
		for i := range uint32(messages) {
			var toC [][]byte
			if speaks {
				toC = lossy(s.message(now, first+i, 8))
			}
			now = pump(now, 20*time.Millisecond, s, c, lossy(c.message(now, first+i, size)), toC)
		}
		pump(now, 2*time.Second, s, c, nil, nil)
		good := 0
		for i := range uint32(messages) {
			number := uint32(first + i)
			require.LessOrEqual(t, s.got[number], 1, "run %d: message %d", run, i)
			if c.fates[number] == FateDelivered {
				require.Equal(t, 1, s.got[number], "run %d: message %d is falsely Delivered", run, i)
			}
			if s.got[number] == 1 && c.fates[number] == FateDelivered {
				good++
			}
		}
		if s.got[first] == 0 && loss == 0 {
			unheard++
		}
		want := messages - 2
		if loss > 0 {
			want = messages / 2 // three fragments each
		}
		require.GreaterOrEqual(t, good, want, "run %d: talk of %d, messages of %d, the server speaks: %v, loss %v", run, n, size, speaks, loss)
	}
	require.LessOrEqual(t, unheard, runs/50)
}

// Copies of packets of an opening change nothing, while it lasts and after a restart.
func TestRestartCopies(t *testing.T) {
	now := someTime
	s := newRestarter(t, now, 7)
	former, c := newRestarter(t, now, 20_000), newRestarter(t, now, 5000)
	var old [][]byte
	for _, from := range []*restarter{former, c} {
		for range 30 {
			old = append(old, from.message(now, uint32(len(old)), 8)...)
			s.take(now, old[len(old)-1:])
			now = now.Add(20 * time.Millisecond)
		}
		received := s.Counters().PacketsReceived - s.Counters().PacketsDuplicate - s.Counters().PacketsStale
		for _, d := range old {
			require.False(t, s.Receive(now, d).Live())
			now = now.Add(20 * time.Millisecond)
		}
		require.Equal(t, received, s.Counters().PacketsReceived-s.Counters().PacketsDuplicate-s.Counters().PacketsStale)
	}
	require.EqualValues(t, 1, s.Inner().Renewals())
	for number, times := range s.got {
		require.Equal(t, 1, times, "message %d", number)
	}
}

// heardNothing returns a message with a sequence whose sender has heard nothing.
func heardNothing(sequence uint16) []byte {
	return append(AppendHeader(nil, Header{sequence, noneHeard, 0}), 1, 2, 3, 4)
}

// A message that has heard nothing begins the window again if it is more than 64 from
// those of the opening, and 8 from those of the one before, and comes 10 ms later.
func TestOpeningLimits(t *testing.T) {
	soon, later := 10*time.Millisecond-1, 10*time.Millisecond
	for name, test := range map[string]struct {
		sequence uint16
		after    time.Duration
		renewed  bool
	}{
		"far below":         {10_000 - 65, later, true},
		"below":             {10_000 - 64, later, false},
		"above":             {10_010 + 64, later, false},
		"far above":         {10_010 + 65, later, true},
		"too soon":          {20_000, soon, false},
		"below the former":  {30_000 - 9, later, true},
		"near the former":   {30_000 - 8, later, false},
		"behind the former": {30_005 + 8, later, false},
		"above the former":  {30_005 + 9, later, true},
		"0":                 {0, later, true},
	} {
		now := someTime
		s := newRestarter(t, now, 7)
		for _, sequence := range []uint16{30_000, 30_005, 10_000, 10_010, 10_004} {
			now = now.Add(50 * time.Millisecond)
			require.Equal(t, Delivered, s.Receive(now, heardNothing(sequence)), name)
		}
		require.EqualValues(t, 1, s.Inner().Renewals(), name)
		now = now.Add(test.after)
		v := s.Receive(now, heardNothing(test.sequence))
		require.Equal(t, test.renewed, s.Inner().Renewals() == 2, "%s: %v", name, v)
		if test.renewed {
			require.Equal(t, Delivered, v, name)
			require.Equal(t, Delivered, s.Receive(now, heardNothing(test.sequence-1)), "%s: overtaken", name)
		}
	}
}

// The packets of an opening burst overtake each other by more than the window tells apart.
// Those too old for it are of the opening all the same: their copies renew nothing, and
// neither do those that were held back for long.
func TestOpeningBurst(t *testing.T) {
	now := someTime
	s := newRestarter(t, now, 7)
	rng := rand.New(rand.NewPCG(1, 2))
	received := make(map[uint16]int)
	take := func(sequence uint16) {
		if s.Receive(now, heardNothing(sequence)) == Delivered {
			received[sequence]++
		}
	}
	const first, newest, held = 10_000, 10_150, 10_005
	take(newest)
	for _, i := range rng.Perm(newest - first) {
		if first+uint16(i) != held {
			now = now.Add(10 * time.Microsecond)
			take(first + uint16(i))
		}
	}
	require.NotContains(t, received, uint16(first))
	now = now.Add(300 * time.Millisecond)
	take(held)
	for i := range uint16(newest - first + 1) {
		now = now.Add(20 * time.Millisecond)
		take(first + i)
	}
	require.Zero(t, s.Inner().Renewals())
	for sequence, times := range received {
		require.Equal(t, 1, times, "packet %d", sequence)
	}

	now = now.Add(20 * time.Millisecond)
	take(first - openingReach - 1)
	require.EqualValues(t, 1, s.Inner().Renewals(), "further below, the other side has started anew")
	require.NotContains(t, received, uint16(held))
}

// A flood goes on with its opening behind each pause of those that read it, and late copies
// of what came before are no news.
func TestOpeningFlood(t *testing.T) {
	const perRead, reads, first = 3000, 8, 5000
	now := someTime
	s := newRestarter(t, now, 7)
	now = now.Add(time.Minute)
	received := make(map[uint16]int)
	for read := range reads {
		for i := range uint16(perRead) {
			if sequence := first + uint16(read)*perRead + i; read == 0 || i >= 100 { // others are lost
				received[sequence] += delivered(s.Receive(now, heardNothing(sequence)))
			}
			if read > 0 && i%50 == 7 { // a copy of what came at the read before
				sequence := first + uint16(read-1)*perRead + i
				received[sequence] += delivered(s.Receive(now, heardNothing(sequence)))
			}
		}
		now = now.Add(20 * time.Millisecond)
	}
	require.Zero(t, s.Inner().Renewals())
	for sequence, times := range received {
		require.LessOrEqual(t, times, 1, "packet %d", sequence)
	}
	require.Greater(t, len(received), perRead*reads*9/10)
	now = now.Add(20 * time.Millisecond)
	s.Receive(now, heardNothing(first-openingReach-1))
	require.EqualValues(t, 1, s.Inner().Renewals(), "behind a flood, the other side has started anew")
}

func delivered(v Verdict) int {
	if v == Delivered {
		return 1
	}
	return 0
}

// How far ahead of an opening others of it may be follows from how fast it came.
func TestOpeningAhead(t *testing.T) {
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	for _, test := range []struct {
		count       uint16
		newsAt, now int64
		ahead       int
		because     string
	}{
		{10, ms(100), ms(110), openingReach, "a slow one"},
		{1000, ms(100), ms(120), 400, "twice what came in 20 ms"},
		{openingReach, ms(0), ms(20), openingReach, "no flood"},
		{1000, ms(100), ms(100), openingReach, "no time has passed"},
		{1000, ms(100), ms(5000), 2000, "of the time of the pause, nothing is known"},
		{1000, ms(0), ms(20), 2000, "all came at once"},
		{60_000, ms(1), ms(2), halfRange, "at most half the range"},
	} {
		in := inbound{opening: opening{count: test.count}, newsAt: test.newsAt}
		require.Equal(t, test.ahead, in.aheadOfOpening(test.now), test.because)
	}
}

// There is no such rule for packets without a message, while the opening is not known,
// for endpoints that begin at 0, nor without MidStream. One from beyond the window is
// parked or stale then.
func TestOpeningElsewhere(t *testing.T) {
	plain := *restartConfig
	plain.MidStream = false
	first := Header{10_000, noneHeard, 0}
	for name, test := range map[string]struct {
		cfg    *Config
		id     uint64
		first  Header
		next   []byte
		passes bool
	}{
		"as it should be": {restartConfig, firstID + 1, first, heardNothing(20_000), true},
		"no message":      {restartConfig, firstID + 1, first, AppendHeader(nil, Header{20_000, noneHeard, 0}), false},
		"mid-stream":      {restartConfig, firstID + 1, Header{10_000, 65_000, 1}, heardNothing(20_000), false},
		"has heard":       {restartConfig, firstID + 1, first, append(AppendHeader(nil, Header{20_000, 65_000, 1}), 'x'), false},
		"begins at 0":     {restartConfig, firstID, first, heardNothing(20_000), false},
		"without":         {&plain, firstID + 1, first, heardNothing(20_000), false},
		"too large":       {restartConfig, firstID + 1, first, append(heardNothing(20_000), make([]byte, 16384)...), false},
	} {
		var e Endpoint
		require.NoError(t, e.Init(test.cfg, someTime, test.id, nil))
		e.Receive(someTime, append(AppendHeader(nil, test.first), 'x'))
		e.Receive(someTime, append(AppendHeader(nil, Header{test.first.Sequence + 1, test.first.Ack, test.first.AckBits}), 'x'))
		v := e.Receive(someTime.Add(time.Second), test.next)
		require.Equal(t, test.passes, v == Delivered, "%s: %v", name, v)
		require.Equal(t, test.passes, e.Inner().Renewals() > 0, name)
	}
	o := opening{0, 101}
	o.note(Header{32_767, noneHeard, 0}, true)
	require.True(t, o.covers(32_767+64, 64, 64))
	require.False(t, o.covers(50_000, 64, 64))
	o.note(Header{32_768, noneHeard, 0}, true)
	require.True(t, o.covers(50_000, 64, 64), "an opening without end covers all")

	o = opening{1000, 60_000}
	o.reachBack(936)
	require.Equal(t, opening{936, 60_064}, o)
	o.reachBack(937)
	require.Equal(t, opening{936, 60_064}, o, "it was of the opening before")
	o = opening{1000, openingHidden - 1}
	o.reachBack(999)
	require.Equal(t, opening{1000, openingHidden - 1}, o)
	o = opening{1000, openingHidden}
	o.reachBack(999)
	require.Equal(t, opening{1000, openingHidden}, o)
}

// A header that tells of sequences before our first is for our predecessor. So is one
// whose ack that header named, until a header shows a window that began with us.
func TestClaimsOfRandomStart(t *testing.T) {
	const first = firstID + 1000
	claimed := func(h Header, floor uint32, message, doubtful bool) (Header, claim) {
		c := claims{floor: floor, before: noBits >> 1}
		return c.judge(h, first, first+100, source{message: message, doubtful: doubtful})
	}
	for name, test := range map[string]struct {
		h     Header
		floor uint32
		want  claim
		bits  uint32
	}{
		"all ours":                      {Header{0, 1031, noBits}, 0, credible, noBits},
		"one before":                    {Header{0, 1030, noBits}, 0, predecessor, noBits},
		"none before":                   {Header{0, 1030, noBits >> 1}, 0, credible, noBits >> 1},
		"the first":                     {Header{0, 1000, 1}, first + 5000, credible, 1},
		"covers eight before":           {Header{0, 1023, 1<<24 - 1}, first + 5000, credible, 1<<24 - 1},
		"covers seven":                  {Header{0, 1024, 1<<25 - 1}, first + 5000, alone, 1},
		"alone":                         {Header{0, 1050, noBits}, first + 5000, alone, 1},
		"the newest of a predecessor's": {Header{0, 1050, noBits}, first + 51, predecessor, noBits},
	} {
		h, got := claimed(test.h, test.floor, false, false)
		require.Equal(t, test.want, got, name)
		require.Equal(t, test.bits, h.AckBits, name)
	}
	h, got := claimed(Header{0, 1050, noBits}, first+5000, false, true)
	require.Equal(t, credible, got, "doubtful")
	require.EqualValues(t, uint32(noBits), h.AckBits)

	var a acks
	for range 3 {
		require.False(t, a.floorDoubtful(0))
		a.judged(alone, 0)
	}
	require.True(t, a.floorDoubtful(0))
	a.judged(alone, 0)
	require.True(t, a.floorDoubtful(0))
	a.judged(predecessor, 0)
	require.False(t, a.floorDoubtful(0))
}

// Ids go on from the first one, whose low 16 bits are the first sequence, also after a
// Reset. The acknowledgement of a peer's first message waits as any other.
func TestRandomStart(t *testing.T) {
	c, s := newRestarter(t, someTime, 12_345), newRestarter(t, someTime, 54)
	require.EqualValues(t, 65_536+12_345, c.NextID())
	c.Reset()
	require.EqualValues(t, 65_536+12_345, c.NextID())
	d := c.message(someTime, 1, 8)
	h, _, err := ParseHeader(d[0])
	require.NoError(t, err)
	require.Equal(t, Header{12_345, noneHeard, 0}, h)
	s.take(someTime, d)
	wait, due := s.ControlDue(someTime)
	require.True(t, due)
	require.Equal(t, restartConfig.AckDelay/2, wait)
	c.Reset()
	require.EqualValues(t, 2*65_536+12_345, c.NextID())
	require.Zero(t, c.Endpoint.out.sent())

	e, err := New(nil, someTime, nil)
	require.NoError(t, err)
	require.EqualValues(t, 65_536, e.NextID())
}

// A first fragment that shows that its sender has skipped ahead, by what it acknowledges,
// tells that for all: a late packet from before, with the same, changes nothing.
func TestFragmentTellsNews(t *testing.T) {
	s, c, now := talkedTo(t, someTime, 500, 1000, 10)
	c.take(now, s.message(now, 100, 8))
	late := c.message(now, 101, 8)
	c.skip(now, 30_000)
	first := c.message(now, 102, 3000)
	require.Len(t, first, 3)
	s.take(now, first[:1])
	require.False(t, s.Receive(now, late[0]).Live())
	s.take(now, first[1:])
	require.Equal(t, 1, s.got[102])
	require.Zero(t, s.Inner().Renewals())
}

// After a silence, a side that has heard nothing is believed to have started anew even
// if its sequence lies within the window, unless it is the next one.
func TestRestartNearAfterSilence(t *testing.T) {
	for name, test := range map[string]struct {
		sequence uint16
		after    time.Duration
		renewed  bool
	}{
		"a little before":  {10_000 - 13, jumpTime, true},
		"a little ahead":   {10_000 + 30, jumpTime, true},
		"the next":         {10_000 + 3, jumpTime, false},
		"not after 9.99 s": {10_000 - 13, jumpTime - 10*time.Millisecond, false},
	} {
		s := newRestarter(t, someTime, 7)
		for i := range uint16(3) {
			require.Equal(t, Delivered, s.Receive(someTime, heardNothing(10_000+i)), name)
		}
		require.Equal(t, Delivered, s.Receive(someTime.Add(test.after), heardNothing(test.sequence)), name)
		require.Equal(t, test.renewed, s.Inner().Renewals() == 1, name)
	}
}

const jumpTime = time.Duration(jumpSilence)

// A restarted side is heard with a message in fragments whose first one comes last, near
// the sequences from before. Fragments that came long before the first one are not kept.
func TestRestartNearInFragments(t *testing.T) {
	for _, late := range []bool{false, true} {
		s, _, now := talkedTo(t, someTime, 500, 1100, 100)
		now = now.Add(time.Minute)
		c := newRestarter(t, now, 1110)
		all := c.message(now, 1, 3000)
		require.Len(t, all, 3)
		s.take(now, all[1:])
		if late {
			now = now.Add(time.Duration(openingPause))
		}
		s.take(now, all[:1])
		require.EqualValues(t, 1, s.Inner().Renewals())
		require.Equal(t, !late, s.got[1] == 1)
	}
}

// A restarted side that begins just ahead of where its predecessor was does not believe
// acks that tell of that one. Copies of what brings them are still duplicates.
func TestRestartNearCopies(t *testing.T) {
	s, c, now := talkedTo(t, someTime, 500, 1000, 10)
	restarted := newRestarter(t, now, 1004)
	restarted.take(now, s.message(now, 100, 8))
	s.take(now, restarted.message(now, 1, 8))
	d := s.message(now, 101, 8)
	require.Equal(t, Delivered, restarted.Receive(now, d[0]))
	require.False(t, restarted.Acked())
	require.Equal(t, Duplicate, restarted.Receive(now, d[0]))
	require.Zero(t, restarted.Inner().Renewals())
	require.NotNil(t, c)
}

// skip uses up n sequences.
func (r *restarter) skip(now time.Time, n int) {
	for range n {
		r.Send(now, nil, &r.out)
		r.out.Reset()
	}
}
