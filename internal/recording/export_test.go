package recording

const (
	Magic        = magic
	MaxElapsed   = maxElapsed
	MaxFrame     = maxFrame
	MaxKept      = maxKept
	MaxWaiting   = maxWaiting
	Omitted      = omitted
	OmittedShare = omittedShare
)

var (
	AppendBlob  = appendBlob
	AppendFrame = appendFrame
	AppendStart = appendStart
	NewHeader   = newHeader
)

type Whole = whole

func (w *whole) Of(b []byte, size int) []byte { return w.of(b, size) }

// Held returns the bytes of a Recorder's segments, and of the spare segment.
func (r *Recorder) Held() (held int64, spare int) {
	if r.spare != nil {
		spare = cap(r.spare.b)
	}
	return r.held, spare
}

// Caps returns the capacities of the buffers of the present call.
func (s *Stream) Caps() (body, data int) { return cap(s.call.body), cap(s.call.data) }
