package netplay

import (
	"context"
	"errors"
)

// Unsent returns the accepted messages that the system had not taken completely when Run
// returned, in their order. Before that it returns nil.
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

// left returns the frames in the queue, which has ended.
func (cl *Client) left() []Frame {
	var frames []Frame
	for _, f := range cl.queue.unsent() {
		frames = append(frames, cl.set.codec.set.frame(f.b))
	}
	return frames
}

// Shutdown ends the client in order. It accepts nothing more, writes the queued messages,
// with Reconnect also on a new connection, and gives the server a second to close. If ctx
// ends first, it closes the connection at once. It returns nil if the system has taken all
// messages. Otherwise it returns an *[UnsentError], joined with the cause of ctx's end. A
// handler must not call Shutdown, which would wait for it, but may call Close.
func (cl *Client) Shutdown(ctx context.Context) error {
	if err := cl.init(); err != nil {
		return nil // nothing was ever accepted
	}
	cl.queue.seal(errClientClosed)
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

// Close ends the client at once. It does not wait for handlers. After Run has returned,
// Unsent has the messages that the system has not taken.
func (cl *Client) Close() error {
	if err := cl.init(); err != nil {
		return nil
	}
	cl.queue.end(errClientClosed)
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

// stopUnused ends a client before Run.
func (cl *Client) stopUnused() {
	cl.queue.end(errClientClosed)
	if !cl.stopped {
		cl.stopped = true
		close(cl.done)
	}
}
