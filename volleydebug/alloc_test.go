package volleydebug_test

import (
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/volleydebug"

	"volley/internal/testenv"
)

// Messages allocate nothing while there is a registry, nor while a page watches:
// what looks allocate is apart from that, and bounded by their number. So many
// more messages than looks can allocate for are sent, and all together allocate
// less than one each.
func TestNoAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	a, b := volley.Pipe(nil)
	defer a.Close()
	defer b.Close()
	buf := make([]byte, 500)
	exchange := func() {
		a.Write(buf[:100])
		b.Read(buf)
		b.Write(buf[:100])
		a.Read(buf)
	}
	for range 10_000 {
		exchange()
	}
	require.Zero(t, testing.AllocsPerRun(10_000, exchange), "with nobody who looks")

	srv := httptest.NewServer((&volleydebug.Config{Interval: minInterval}).Handler())
	t.Cleanup(srv.Close)
	next, status := stream(t, srv.URL+"/")
	require.Equal(t, 200, status)
	next()
	allocs := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Mallocs
	}
	count, before, start := uint64(0), allocs(), time.Now()
	for looks := 0; looks < 3; looks++ {
		for range 20_000 {
			exchange()
			count += 2
		}
		next()
	}
	looks := uint64(time.Since(start)/minInterval) + 2
	made := allocs() - before
	t.Logf("%d messages and at most %d looks: %d allocations", count, looks, made)
	require.Less(t, made, count/10+300*looks, "messages allocate while a page watches")
}
