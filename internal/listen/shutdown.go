package listen

import (
	"context"
	"sync"
	"time"
)

// Close ends Accept, and closes what is queued. Calls return the first one's result.
func (l *Listener[C]) Close() error {
	l.closeOnce.Do(func() {
		close(l.done)
		if l.hooks.Stop != nil {
			l.hooks.Stop()
		}
		l.queue.Close(nil)
		var first error
		for _, m := range l.muxes {
			if err := m.Close(); err != nil && first == nil {
				first = err
			}
		}
		l.closeErr = l.opError("close", first)
	})
	return l.closeErr
}

// Shutdown is Close, then waits for all, or ends connections when ctx does.
func (l *Listener[C]) Shutdown(ctx context.Context) error {
	err := l.Close()
	select {
	case <-l.over: // also if ctx is over
		return l.release(ctx, err)
	default:
	}
	select {
	case <-l.over:
		return l.release(ctx, err)
	case <-ctx.Done():
	}
	// Close has emptied the queue and closed it. So whoever is being admitted at
	// this moment is refused, and closed, if not by this then by its Admit.
	l.endAll()
	if l.hooks.Farewell > 0 {
		select {
		case <-l.over:
		case <-time.After(l.hooks.Farewell):
		}
	}
	return l.opError("shutdown", ctx.Err())
}

// release waits until the addresses of the sockets are free, and returns err.
func (l *Listener[C]) release(ctx context.Context, err error) error {
	for _, m := range l.muxes {
		gone := m.Released()
		if gone == nil {
			continue
		}
		select {
		case <-gone: // also if ctx is over
			continue
		default:
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return l.opError("shutdown", ctx.Err())
		}
	}
	return err
}

// enders is how many connections endAll closes at once: each may wait for room.
const enders = 64

// endAll closes the connections that are left.
func (l *Listener[C]) endAll() {
	var wg sync.WaitGroup
	defer wg.Wait()
	turn := make(chan struct{}, enders)
	for _, m := range l.muxes {
		for _, h := range m.Handlers() {
			turn <- struct{}{}
			wg.Go(func() {
				l.hooks.End(h)
				<-turn
			})
		}
	}
}
