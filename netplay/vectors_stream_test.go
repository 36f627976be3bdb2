package netplay

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// testStreamVectors reads streams as they came in segments. Every frame that is
// whole must be read, whatever the library did with it, and what the library
// handed to its handler must be among them.
func testStreamVectors(t *testing.T, s *schemas, cases []vectorCase) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			segments := c.segments(t)
			set, err := newSettings(nil)
			require.NoError(t, err)
			stream := bytes.Join(segments, nil)
			frames, end := readSegments(set, segments)

			want, wantEnd := modelFrames(stream)
			require.Equal(t, want, frames)
			require.Equal(t, wantEnd, classOf(end))
			if c.Reference.Closed {
				require.Equal(t, "protocol", classOf(end))
			}
			c.checkMessages(t, frames)
			c.checkTyped(t, s, set, frames)
		})
	}
}

// segments returns the bytes as they were sent, also those that the file
// describes in words.
func (c *vectorCase) segments(t *testing.T) [][]byte {
	var list []hexBytes
	if json.Unmarshal(c.Segments, &list) == nil {
		var out [][]byte
		for _, s := range list {
			out = append(out, s)
		}
		return out
	}
	var described struct {
		Total int      `json:"total_bytes"`
		First hexBytes `json:"first_bytes"`
		Rule  string
	}
	require.NoError(t, json.Unmarshal(c.Segments, &described))
	size := 2 + int(binary.BigEndian.Uint16(described.First))
	var all []byte
	for i := range described.Total / size {
		factor := i // of one frame among many
		if described.Total == size {
			factor = 1
		}
		payload := make([]byte, size-minFrame)
		copy(payload, described.First[minFrame:minFrame+2])
		for j := range payload[2:] {
			payload[2+j] = byte(factor * j)
		}
		frame, err := AppendFrame(nil, Frame{Type: binary.BigEndian.Uint16(described.First[3:]), Payload: payload})
		require.NoError(t, err)
		all = append(all, frame...)
	}
	require.Len(t, all, described.Total)
	require.Equal(t, []byte(described.First), all[:len(described.First)])
	return [][]byte{all}
}

// readSegments returns the frames in a stream and how it ended.
func readSegments(set *settings, segments [][]byte) (frames []Frame, end error) {
	fr := frameReader{maxFrame: set.maxFrame, read: func(b []byte, partial bool) (int, error) {
		for len(segments) > 0 && len(segments[0]) == 0 {
			segments = segments[1:]
		}
		if len(segments) == 0 {
			return 0, io.EOF
		}
		n := copy(b, segments[0])
		segments[0] = segments[0][n:]
		return n, nil
	}}
	for {
		f, err := fr.next()
		if err != nil {
			return frames, err
		}
		f.Payload = append([]byte{}, f.Payload...)
		frames = append(frames, f)
	}
}

// classOf returns what kind of end an error is.
func classOf(err error) string {
	var pe *ProtocolError
	switch {
	case errors.As(err, &pe):
		return "protocol"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "partial"
	case errors.Is(err, io.EOF):
		return "end"
	}
	return err.Error()
}

// modelFrames reads frames by the letter of the format.
func modelFrames(b []byte) (frames []Frame, end string) {
	for len(b) > 0 {
		if len(b) < 2 {
			return frames, "partial"
		}
		n := int(b[0])<<8 | int(b[1])
		if n < 3 {
			return frames, "protocol"
		}
		if len(b) < 2+n {
			return frames, "partial"
		}
		frames = append(frames, Frame{
			Options: b[2],
			Type:    uint16(b[3])<<8 | uint16(b[4]),
			Payload: append([]byte{}, b[5:2+n]...),
		})
		b = b[2+n:]
	}
	return frames, "end"
}

// checkMessages looks for what the library read among the frames, in order.
func (c *vectorCase) checkMessages(t *testing.T, frames []Frame) {
	for _, m := range c.Reference.Messages {
		want := Frame{m.Type, m.Options, append([]byte{}, m.Payload...)}
		for len(frames) > 0 && !bytes.Equal(appendFrame(frames[0]), appendFrame(want)) {
			frames = frames[1:]
		}
		require.NotEmpty(t, frames, "message %d was not read", m.Type)
		frames = frames[1:]
	}
}

func appendFrame(f Frame) []byte {
	b, err := AppendFrame(nil, f)
	if err != nil {
		panic(err)
	}
	return b
}

// checkTyped decodes the frames where the library's handler did.
func (c *vectorCase) checkTyped(t *testing.T, s *schemas, set *settings, frames []Frame) {
	if c.Mode != "typed" {
		return
	}
	codec := Codec{reg: s.registry(t), set: set}
	refused := make(map[string]bool)
	for _, m := range c.Reference.Messages {
		f := Frame{m.Type, m.Options, m.Payload}
		refused[string(appendFrame(f))] = m.Error != "" && !bytes.HasPrefix(m.Payload, []byte{0x1f, 0x8b}) || m.Options&Encrypted != 0
	}
	for _, f := range frames {
		_, err := codec.Decode(f)
		want, known := refused[string(appendFrame(f))]
		if !known && !c.Reference.Serves && f.Options&Compressed != 0 {
			want = true // the library did not come back from this frame
		}
		require.Equal(t, want, err != nil, "%x: %v", f.Payload, err)
		var me *MessageError
		require.Equal(t, want, errors.As(err, &me))
	}
}
