package netplay

import (
	"context"
	"errors"
)

// Unsent returns the messages that were accepted and, when Run returned, not
// handed to the system as a whole, in their order. Before that it returns nil.
func (cl *Client) Unsent() []Frame {
	if cl.init() != nil {
		return nil
	}
	select {
	case <-cl.done:
		return cl.left()
	default:
		return nil
	}
}

// left returns what the queue, which has ended, still holds.
func (cl *Client) left() []Frame {
	var frames []Frame
	for _, f := range cl.queue.unsent() {
		frames = append(frames, cl.set.codec.set.frame(f.b))
	}
	return frames
}

// Shutdown ends the client in order: nothing more is accepted; what was, is
// handed to the system, with Reconnect also on a new connection; and the server
// is given a second to close. When ctx ends first, the connection is closed at
// once. Shutdown returns nil if everything was handed to the system; else an
// [*UnsentError], joined with the error of ctx if that has ended. It must not
// be called by a handler, which it would wait for; Close may.
func (cl *Client) Shutdown(ctx context.Context) error {
	if err := cl.init(); err != nil {
		return nil // nothing was ever accepted
	}
	cl.queue.seal(ErrClientClosed)
	cl.mu.Lock()
	if cl.leaving == nil {
		cl.leaving = ctx
	}
	if !cl.running {
		cl.stopUnused()
	} else if cl.conn != nil {
		cl.ending.begin(ctx, cl.conn, nil)
	} else if cl.queue.empty() {
		cl.cancel()
	}
	cl.mu.Unlock()

	var err error
	select {
	case <-cl.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		cl.Close()
	}
	if frames := cl.left(); len(frames) > 0 {
		return errors.Join(err, &UnsentError{Unsent: []Unsent{{Frames: frames}}})
	}
	return err
}

// Close ends the client at once. What was accepted and not handed to the system
// is told by Unsent once Run has returned. Close does not wait for handlers.
func (cl *Client) Close() error {
	if err := cl.init(); err != nil {
		return nil
	}
	cl.queue.end(ErrClientClosed)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if !cl.running {
		cl.stopUnused()
		return nil
	}
	cl.stopped = true
	cl.cancel()
	return nil
}

// stopUnused ends a client of which Run was not called.
func (cl *Client) stopUnused() {
	cl.queue.end(ErrClientClosed)
	if !cl.stopped {
		cl.stopped = true
		close(cl.done)
	}
}
