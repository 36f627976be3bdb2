package recording

import (
	"io"
	"sync"
)

// A sink writes a capture on its own goroutine, so that recording never waits.
type sink struct {
	w    io.Writer
	fail func(error)   // called with no lock held
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	wake    *sync.Cond
	waiting []byte
	spare   []byte
	writing int  // bytes that the goroutine is writing
	over    bool // nothing more comes
	err     error
}

func newSink(w io.Writer, start []byte, fail func(error)) *sink {
	k := &sink{w: w, fail: fail, done: make(chan struct{}), waiting: start}
	k.wake = sync.NewCond(&k.mu)
	go k.run()
	return k
}

// put takes a record of any size; false: too much waits before it.
func (k *sink) put(body []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.writing+len(k.waiting) >= maxWaiting {
		return false
	}
	k.waiting = appendFrame(k.waiting, body)
	k.wake.Signal()
	return true
}

// finish takes the last record.
func (k *sink) finish(end []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting = append(k.waiting, end...)
	k.over = true
	k.wake.Signal()
}

// close waits until all has been written, after finish.
func (k *sink) close() error {
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

func (k *sink) run() {
	defer close(k.done)
	for {
		k.mu.Lock()
		k.writing = 0
		for len(k.waiting) == 0 && !k.over {
			k.wake.Wait()
		}
		b := k.waiting
		k.waiting = k.spare[:0]
		k.writing = len(b)
		k.mu.Unlock()
		if len(b) == 0 {
			return
		}
		if _, err := k.w.Write(b); err != nil {
			k.mu.Lock()
			k.err = err
			k.mu.Unlock()
			k.fail(err)
			return
		}
		if k.spare = b; cap(b) > 2*maxWaiting {
			k.spare = nil
		}
	}
}
