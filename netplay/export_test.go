package netplay

// Names that tests of the outside use.
const (
	MaxPayload       = maxPayload
	Compressed uint8 = compressed
	Encrypted  uint8 = encrypted
	Reserved   uint8 = 0xfc
)

var (
	ErrShortBody    = errShortBody
	ErrDecodedSize  = errDecodedSize
	ErrDepth        = errDepth
	ErrExpandedSize = errExpandedSize
	ErrEncrypted    = errEncrypted
	ErrFrameTimeout = errFrameTimeout
	ErrWriteTimeout = errWriteTimeout
	ErrServerClosed = errServerClosed
	ErrClientClosed = errClientClosed
)

type CompressionError = compressionError

// Unmarshal reads the message in f into the struct that v points to, whatever the
// number of the message.
func (c *Codec) Unmarshal(f Frame, v any) error {
	pl, p, err := targetOf(v)
	if err != nil {
		return err
	}
	return c.decode(f, p, pl)
}
