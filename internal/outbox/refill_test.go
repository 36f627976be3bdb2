package outbox

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// A refilling conn keeps data back until it may leave, up to 10 datagrams at a
// time.
type refilling struct {
	conn
	kept int // datagrams
	most int // of kept ones that were framed before they could leave
}

func newRefilling() *refilling {
	c := &refilling{conn: conn{link: &link{waited: make(chan struct{}, 1)}}}
	c.Init(&c.Mutex, c.link, c, false)
	return c
}

// Refill implements Refiller.
func (c *refilling) Refill() {
	out := c.Batch(0)
	for n := 0; n < 10 && c.kept > 0; n++ {
		c.frame(out)
		c.kept--
	}
	c.most = max(c.most, out.Len())
}

func (c *refilling) frame(out *wire.Batch) { c.Frame(0, nil, out) }

// pump frames answers and keeps data, as receiving does.
func (c *refilling) pump(answers, data int) {
	c.Lock()
	defer c.Unlock()
	out := c.Batch(0)
	for range answers {
		c.frame(out)
	}
	c.kept += data
	c.PumpUnlocking(nil)
}

// What a Refiller keeps back leaves in the caller, behind what is pending, in
// portions that are framed when those before have left.
func TestPumpRefills(t *testing.T) {
	c := newRefilling()
	c.pump(3, 25)
	require.Equal(t, []int{3, 10, 10, 5}, c.link.sizes)
	c.wantInOrder(t, 28)
	c.pump(0, 0)
	require.Nil(t, c.pending, "a batch with nothing in it")
	require.False(t, c.busy)
	require.Len(t, c.link.sizes, 4)
}

// Without room the caller does not wait: a goroutine goes on when there is some,
// with what has come meanwhile, answers first.
func TestPumpWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRefilling()
		c.link.room = make(chan struct{})
		c.pump(1, 25)
		synctest.Wait()
		require.Empty(t, c.link.sent)
		c.pump(2, 5)
		require.Equal(t, 30, c.kept, "data is not framed before it can leave")
		close(c.link.room)
		synctest.Wait()
		c.wantInOrder(t, 33)
		require.Equal(t, []int{1, 2, 10, 10, 10}, c.link.sizes)
		require.Equal(t, 10, c.most)
	})
}

// Who is busy takes over what others have kept meanwhile.
func TestPumpWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRefilling()
		c.link.room = make(chan struct{})
		go func() {
			c.Lock()
			defer c.Unlock()
			c.kept = 1
			c.PumpUnlocking(c.Patience())
		}()
		synctest.Wait()
		c.pump(0, 1)
		c.pump(1, 1)
		require.Empty(t, c.link.sent)
		close(c.link.room)
		synctest.Wait()
		c.wantInOrder(t, 4)
		require.Equal(t, []int{1, 1, 2}, c.link.sizes)
	})
}
