package netplay

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
)

var (
	// ErrUnknownType means that no type is registered for the number of a received message.
	ErrUnknownType = errors.New("netplay: unknown message type")
	errEncrypted   = errors.New("netplay: the encrypted flag is set, for which no cipher is defined")
)

// A MessageError means that a message cannot be read. Later messages can: the
// connection stays usable.
type MessageError struct {
	Type    uint16
	Options uint8 // as in Frame
	Err     error // such as ErrUnknownType or a *DecodeError
}

func (e *MessageError) Error() string { return fmt.Sprintf("message of type %d: %v", e.Type, e.Err) }

func (e *MessageError) Unwrap() error { return e.Err }

// isMessageError does not allocate where there is no error.
func isMessageError(err error) bool {
	if err == nil {
		return false
	}
	var me *MessageError
	return errors.As(err, &me)
}

// isMalformed reports whether err is an unreadable message, which a handler's error never is.
func isMalformed(err error) bool {
	_, handler := err.(*HandlerError)
	return !handler && isMessageError(err)
}

// A Codec turns messages into frames and back, for transports of your own. It is safe
// for concurrent use.
type Codec struct {
	reg *Registry
	set *settings
}

// NewCodec returns a Codec for the types in reg. A nil cfg is the default. The error
// is a *[ConfigError].
func NewCodec(reg *Registry, cfg *Config) (*Codec, error) {
	s, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	if reg == nil {
		return nil, configError("Registry", "it is nil")
	}
	return &Codec{reg: reg, set: s}, nil
}

// Append appends the frame of the message v, a struct or a pointer to one. After an error
// it returns dst as it was. It does not allocate if dst has room and v is a pointer.
//
// Errors are those of [Marshal], also for a type that is not registered, and a
// *[MessageTooLargeError].
func (c *Codec) Append(dst []byte, v any) ([]byte, error) {
	pl, p, err := structOf(v)
	if err != nil {
		return dst, err
	}
	mt := c.reg.load().byPlan[pl]
	if mt == nil {
		return dst, &ValueError{Type: pl.typ, Reason: "not registered"}
	}
	start := len(dst)
	out := append(dst, 0, 0, 0, byte(mt.number>>8), byte(mt.number))
	if out, err = c.set.appendPlanned(out, p, pl); err != nil {
		return dst, err
	}
	if out, err = c.finish(out, start, mt); err != nil {
		return dst, err
	}
	return out, nil
}

// finish compresses the body of the frame at start, and fills in its length and options.
func (c *Codec) finish(out []byte, start int, mt *messageType) ([]byte, error) {
	body := start + minFrame
	n := len(out) - body
	if mt.threshold > 0 && n >= mt.threshold && n <= c.set.maxExpanded {
		shorter := false
		if out, shorter = compressBody(out, body, c.set.gzip); shorter {
			out[start+2] = compressed
		}
	}
	size := len(out) - start
	if size > c.set.maxFrame {
		return nil, &MessageTooLargeError{Size: size, Max: c.set.maxFrame}
	}
	out[start], out[start+1] = byte((size-2)>>8), byte(size-2)
	return out, nil
}

// Decode returns the message in f as a pointer to a new value of its registered type.
// The message keeps nothing of f. The error is a *[MessageError].
func (c *Codec) Decode(f Frame) (any, error) {
	mt := c.reg.load().byNumber[f.Type]
	if mt == nil {
		return nil, &MessageError{Type: f.Type, Options: f.Options, Err: ErrUnknownType}
	}
	v := reflect.New(mt.plan.typ)
	if err := c.decode(f, addr(v.UnsafePointer()), mt.plan); err != nil {
		return nil, err
	}
	return v.Interface(), nil
}

func (c *Codec) decode(f Frame, p addr, pl *plan) error {
	if err := c.decodeBody(f, p, pl); err != nil {
		return &MessageError{Type: f.Type, Options: f.Options, Err: err}
	}
	return nil
}

// bodies holds buffers for expanded bodies. To make a large one takes longer than to fill it.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func (c *Codec) decodeBody(f Frame, p addr, pl *plan) error {
	if f.Options&encrypted != 0 && !c.set.acceptEncrypted {
		return errEncrypted
	}
	if f.Options&compressed == 0 {
		return c.set.decodePlanned(f.Payload, p, pl)
	}
	buf := bodies.Get().(*[]byte)
	body, err := expand(*buf, f.Payload, c.set.maxExpanded)
	if err == nil {
		err = c.set.decodePlanned(body, p, pl)
	}
	if cap(body) <= defaultExpanded+1 {
		*buf = body
	}
	bodies.Put(buf)
	return err
}
