package reliable

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"path"
	"strings"
	"testing"

	"volley/internal/seq"
	"volley/internal/vectors"
)

// TestVectors runs every golden vector by the name of its file.
func TestVectors(t *testing.T) {
	for name, data := range vectors.Files(t, "reliable") {
		t.Run(strings.TrimSuffix(name, ".jsonl"), func(t *testing.T) {
			t.Parallel()
			base := path.Base(name)
			run, known := vectorTests[base]
			if !known && strings.HasPrefix(base, "trace_") && strings.HasSuffix(base, ".jsonl") {
				run, known = testTrace, true
			}
			if !known {
				t.Fatalf("no test for a file named %s", name)
			}
			lines := splitLines(data)
			if len(lines) == 0 {
				t.Fatalf("%s holds nothing", name)
			}
			run(t, lines)
		})
	}
}

var vectorTests = map[string]func(*testing.T, [][]byte){
	"packet_header_encode.jsonl":   testHeaderEncode,
	"conformance_headers.jsonl":    testHeaderEncode,
	"packet_header_decode.jsonl":   testHeaderDecode,
	"fragment_header_decode.jsonl": testFragmentDecode,
	"conformance_fragments.jsonl":  testConformanceFragments,
	"sequence_compare.jsonl":       testSequenceCompare,
	"sequence_buffer.jsonl":        testSequenceBuffer,
}

func splitLines(data []byte) [][]byte {
	var lines [][]byte
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// decodeLines gives each line, as a T, to f.
func decodeLines[T any](t *testing.T, lines [][]byte, f func(line int, v T)) {
	t.Helper()
	for i, line := range lines {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		f(i+1, v)
	}
}

// hexBytes are bytes written in hexadecimal.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

type headerVector struct {
	Hex         hexBytes
	OK          bool
	Reason      string
	Sequence    uint16
	Ack         uint16
	AckBits     uint32 `json:"ack_bits"`
	HeaderBytes int    `json:"header_bytes"`
	Canonical   bool
}

func (v headerVector) header() Header { return Header{v.Sequence, v.Ack, v.AckBits} }

func testHeaderEncode(t *testing.T, lines [][]byte) {
	decodeLines(t, lines, func(line int, v headerVector) {
		h := v.header()
		if got := AppendHeader(nil, h); !bytes.Equal(got, v.Hex) {
			t.Errorf("line %d: AppendHeader(%+v) = %x, want %x", line, h, got, []byte(v.Hex))
		}
		if h.size() != len(v.Hex) {
			t.Errorf("line %d: %+v.size() = %d, want %d", line, h, h.size(), len(v.Hex))
		}
		got, n, err := ParseHeader(v.Hex)
		if got != h || n != len(v.Hex) || err != nil {
			t.Errorf("line %d: ParseHeader(%x) = %+v, %d, %v, want %+v", line, []byte(v.Hex), got, n, err, h)
		}
	})
}

// headerReasons are the reasons of the vectors.
var headerReasons = map[string]FormatError{
	"header_lt_3_bytes":              errHeaderShort,
	"prefix_is_fragment":             errHeaderIsFragment,
	"truncated_ack8":                 errHeaderShortAck,
	"truncated_ack16":                errHeaderShortAck,
	"truncated_ack_bits":             errHeaderShortAckBits,
	"fragment_lt_5_bytes":            errFragmentShort,
	"fragment_prefix_not_1":          errFragmentPrefix,
	"num_fragments_gt_max":           errFragmentCount,
	"fragment_id_ge_num":             errFragmentID,
	"embedded_sequence_mismatch":     errFragmentSequence,
	"embedded_header_not_canonical":  errFragmentHeader,
	"fragment_data_gt_fragment_size": errFragmentLong,
	"non_last_fragment_wrong_size":   errFragmentSize,
}

func testHeaderDecode(t *testing.T, lines [][]byte) {
	decodeLines(t, lines, func(line int, v headerVector) {
		h, n, err := ParseHeader(v.Hex)
		if !v.OK {
			if want, known := headerReasons[v.Reason]; err == nil || known && err != want {
				t.Errorf("line %d: ParseHeader(%x) = %v, want %s", line, []byte(v.Hex), err, v.Reason)
			}
			return
		}
		if err != nil || h != v.header() || n != v.HeaderBytes {
			t.Errorf("line %d: ParseHeader(%x) = %+v, %d, %v, want %+v, %d", line, []byte(v.Hex), h, n, err, v.header(), v.HeaderBytes)
			return
		}
		if got := bytes.Equal(AppendHeader(nil, h), v.Hex[:n]); got != v.Canonical {
			t.Errorf("line %d: %x is canonical: %v, want %v", line, []byte(v.Hex), got, v.Canonical)
		}
	})
}

func testFragmentDecode(t *testing.T, lines [][]byte) {
	type vector struct {
		headerVector
		MaxFragments  int   `json:"max_fragments"`
		FragmentSize  int   `json:"fragment_size"`
		FragmentID    uint8 `json:"fragment_id"`
		NumFragments  int   `json:"num_fragments"`
		FragmentBytes int   `json:"fragment_bytes"`
		EmbeddedBytes int   `json:"embedded_header_bytes"`
	}
	decodeLines(t, lines, func(line int, v vector) {
		f, err := ParseFragment(v.Hex, v.MaxFragments, v.FragmentSize)
		if !v.OK {
			if want, known := headerReasons[v.Reason]; err == nil || known && err != want {
				t.Errorf("line %d: ParseFragment(%x) = %v, want %s", line, []byte(v.Hex), err, v.Reason)
			}
			return
		}
		want := FragmentHeader{v.Sequence, v.FragmentID, v.NumFragments}
		if err != nil || f.FragmentHeader != want || len(f.Data) != v.FragmentBytes {
			t.Errorf("line %d: ParseFragment(%x) = %+v, %v, want %+v", line, []byte(v.Hex), f, err, want)
			return
		}
		if v.FragmentID == 0 && (f.Header != v.header() || f.HeaderSize != v.EmbeddedBytes) {
			t.Errorf("line %d: ParseFragment(%x) = %+v, want %+v", line, []byte(v.Hex), f, v.header())
		}
		again := AppendFragmentHeader(nil, f.FragmentHeader)
		if f.ID == 0 {
			again = AppendHeader(again, f.Header)
		}
		if again = append(again, f.Data...); !bytes.Equal(again, v.Hex) {
			t.Errorf("line %d: %x encodes to %x", line, []byte(v.Hex), again)
		}
	})
}

// testConformanceFragments cuts one packet and puts it together.
func testConformanceFragments(t *testing.T, lines [][]byte) {
	type vector struct {
		PayloadBytes  int    `json:"payload_bytes"`
		PayloadRule   string `json:"payload_rule"`
		FragmentAbove int    `json:"fragment_above"`
		FragmentSize  int    `json:"fragment_size"`
		MaxFragments  int    `json:"max_fragments"`
		MaxPacketSize int    `json:"max_packet_size"`
		Sequence      uint16
		Datagrams     []hexBytes
	}
	decodeLines(t, lines, func(line int, v vector) {
		cfg := &Config{FragmentAbove: v.FragmentAbove, FragmentSize: v.FragmentSize,
			MaxFragments: v.MaxFragments}
		// The packet fits, but a maximum beyond what the fragments carry is
		// not a valid Config.
		cfg.MaxPacketSize = min(v.MaxPacketSize, v.MaxFragments*v.FragmentSize)
		payload := make([]byte, v.PayloadBytes)
		for i := range payload {
			payload[i] = byte(i * 7)
		}
		var got []byte
		e, err := newEndpoint(cfg, testTime(0), HandlerFunc(func(_ uint16, p []byte) bool {
			got = bytes.Clone(p)
			return true
		}))
		if err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		e.out.nextID = uint64(v.Sequence)
		var out Batch
		if _, err := e.Send(testTime(0), payload, &out); err != nil || out.Len() != len(v.Datagrams) {
			t.Fatalf("line %d: Send = %d datagrams, %v, want %d", line, out.Len(), err, len(v.Datagrams))
		}
		for i, want := range v.Datagrams {
			if !bytes.Equal(out.At(i), want) {
				t.Errorf("line %d: datagram %d = %x, want %x", line, i, out.At(i), []byte(want))
			}
			e.Receive(testTime(0), want)
		}
		if !bytes.Equal(got, payload) {
			t.Errorf("line %d: received %x, want %x", line, got, payload)
		}
	})
}

func testSequenceCompare(t *testing.T, lines [][]byte) {
	type vector struct {
		A, B          uint16
		Greater, Less bool
	}
	decodeLines(t, lines, func(line int, v vector) {
		if got := seq.Greater(v.A, v.B); got != v.Greater {
			t.Errorf("line %d: Greater(%d, %d) = %v, want %v", line, v.A, v.B, got, v.Greater)
		}
		if got := seq.Less(v.A, v.B); got != v.Less {
			t.Errorf("line %d: Less(%d, %d) = %v, want %v", line, v.A, v.B, got, v.Less)
		}
	})
}

func testSequenceBuffer(t *testing.T, lines [][]byte) {
	type vector struct {
		Name string
		Size int
		Ops  [][]any
	}
	decodeLines(t, lines, func(line int, v vector) {
		var w seq.Window
		w.Init(v.Size, v.Size)
		for i, op := range v.Ops {
			if !sequenceOp(&w, op) {
				t.Fatalf("%s: operation %d, %v, went otherwise", v.Name, i, op)
			}
		}
	})
}

// sequenceOp does one operation of a scenario and reports whether it went as
// the reference's.
func sequenceOp(w *seq.Window, op []any) bool {
	number := func(i int) uint32 { return uint32(op[i].(float64)) }
	var s uint16
	if len(op) > 1 {
		s = uint16(number(1))
	}
	switch op[0] {
	case "insert":
		return w.Insert(s) == op[2]
	case "insert_cleanup": // the rule of reassemblies
		if !w.Forward(s) && w.Stale(s) {
			return op[2] == false
		}
		w.Put(s)
		return op[2] == true
	case "can_insert":
		return !w.Stale(s) == op[2]
	case "exists":
		return w.Exists(s) == op[2]
	case "advance":
		w.Forward(s)
	case "remove":
		w.Remove(s)
	case "reset":
		w.Reset()
	case "acks":
		ack, ackBits := w.Acks()
		return ack == s && ackBits == number(2)
	default:
		return false
	}
	return true
}
