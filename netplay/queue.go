package netplay

import (
	"bytes"
	"context"
	"sync"
)

// batchSize is up to how many bytes of small frames are written at once.
const batchSize = 16 << 10

// A queue holds the frames that a connection has accepted and not yet written, in order. A
// goroutine writes them. It exists only while there are frames and a sink.
type queue struct {
	limit int

	mu      sync.Mutex
	frames  []*outFrame // from head on
	head    int
	bytes   int // the cost of the frames
	sink    sink
	running bool  // a goroutine writes
	sealed  error // nothing is accepted any more
	ended   bool  // nothing is written any more
	changed chan struct{}
	run     func() // q.drain, made once
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.run = q.drain
	return q
}

// A sink is where a queue writes to.
type sink struct {
	write  func([]byte) (int, error)
	wrote  func(frames int) // is told how many frames were written
	failed func(error)      // is told the error of write, which is the last call
}

// connect has the frames written to s, until it fails.
func (q *queue) connect(s sink) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sink = s
	q.start()
}

// start starts the goroutine if there is something to do for it.
func (q *queue) start() {
	if !q.running && q.sink.write != nil && !q.ended && q.head < len(q.frames) {
		q.running = true
		go q.run()
	}
}

// push accepts a frame and reports whether there was room. The error is that of seal.
func (q *queue) push(f *outFrame) (ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(f)
}

func (q *queue) add(f *outFrame) (ok bool, err error) {
	if q.sealed != nil {
		return false, q.sealed
	}
	if q.bytes+f.cost() > q.limit {
		return false, nil
	}
	f.refs.Add(1)
	if len(q.frames) == cap(q.frames) && q.head > len(q.frames)/2 {
		n := copy(q.frames, q.frames[q.head:])
		clear(q.frames[n:])
		q.frames, q.head = q.frames[:n], 0
	}
	q.frames = append(q.frames, f)
	q.bytes += f.cost()
	q.start()
	return true, nil
}

// pushWait accepts a frame as soon as there is room.
func (q *queue) pushWait(ctx context.Context, f *outFrame) error {
	var err error
	added := q.wait(ctx, func() (done bool) {
		done, err = q.add(f)
		return done || err != nil
	})
	if !added {
		return context.Cause(ctx)
	}
	return err
}

func (q *queue) signal() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// drain writes until there is nothing left or writing fails.
func (q *queue) drain() {
	scratch := batches.Get().(*[]byte)
	defer batches.Put(scratch)
	q.mu.Lock()
	for {
		batch, b := q.batch(scratch)
		if batch == 0 || q.ended || q.sink.write == nil {
			break // also if the connection was taken away
		}
		s := q.sink
		q.mu.Unlock()
		n, err := s.write(b)
		q.mu.Lock()
		s.wrote(q.written(batch, n))
		if err != nil {
			q.sink = sink{}
			q.stopAndUnlock()
			s.failed(err)
			return
		}
	}
	q.stopAndUnlock()
}

func (q *queue) stopAndUnlock() {
	q.running = false
	q.signal()
	q.mu.Unlock()
}

var batches = sync.Pool{New: func() any {
	b := make([]byte, 0, batchSize)
	return &b
}}

// batch returns how many frames to write next, and their bytes: one, or copies of several.
func (q *queue) batch(scratch *[]byte) (n int, b []byte) {
	waiting := q.frames[q.head:]
	if len(waiting) == 0 {
		return 0, nil
	}
	if len(waiting) == 1 || len(waiting[0].b)+len(waiting[1].b) > batchSize {
		return 1, waiting[0].b
	}
	b = (*scratch)[:0]
	for _, f := range waiting {
		if len(b)+len(f.b) > batchSize {
			break
		}
		b = append(b, f.b...)
		n++
	}
	return n, b
}

// written forgets the frames that were written completely, and returns their number.
func (q *queue) written(batch, n int) (frames int) {
	for _, f := range q.frames[q.head:][:batch] {
		if n -= len(f.b); n < 0 {
			break
		}
		q.frames[q.head] = nil
		q.head++
		q.bytes -= f.cost()
		f.release()
		frames++
	}
	if q.head == len(q.frames) {
		q.frames, q.head = q.frames[:0], 0
		if cap(q.frames) > 1024 {
			q.frames = nil
		}
	}
	q.signal()
	return frames
}

// seal makes push fail with err. Frames that were accepted are still written.
func (q *queue) seal(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sealed == nil {
		q.sealed = err
	}
	q.signal()
}

// flush waits until all frames are written or the queue ends. It reports whether all are.
func (q *queue) flush(ctx context.Context) bool {
	return q.wait(ctx, func() bool { return q.head == len(q.frames) || q.ended }) && q.empty()
}

// wait waits until done, which is called with the lock held, or until ctx ends.
func (q *queue) wait(ctx context.Context, done func() bool) bool {
	for {
		q.mu.Lock()
		ok := done()
		if !ok && q.changed == nil {
			q.changed = make(chan struct{})
		}
		changed := q.changed
		q.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.head == len(q.frames)
}

// disconnect takes the sink away. The connection is closed already, so a write ends.
func (q *queue) disconnect() {
	q.mu.Lock()
	q.sink = sink{}
	q.mu.Unlock()
	q.wait(context.Background(), func() bool { return !q.running })
}

// end stops accepting and writing.
func (q *queue) end(err error) {
	q.seal(err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.signal()
}

// unsent returns copies of the frames not written completely, once queue and connection
// are over.
func (q *queue) unsent() (frames []Frame) {
	q.wait(context.Background(), func() bool { return !q.running })
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range q.frames[q.head:] {
		frames = append(frames, frameAt(bytes.Clone(f.b)))
	}
	return frames
}

// size returns the bytes and the number of frames that wait.
func (q *queue) size() (bytes, frames int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes, len(q.frames) - q.head
}
