package core

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/vectors"
	"volley/internal/wire"
)

// readVectors decodes one file of the recordings.
func readVectors[T any](t *testing.T, file string) (v T) {
	data, ok := vectors.Files(t, "porous")[file]
	if !ok && os.Getenv(vectors.EnvDir) != "" {
		t.Skipf("the set has no %s", file)
	}
	require.True(t, ok, "no %s", file)
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// TestVectorsAllFilesAreRun fails for a file that no test reads.
func TestVectorsAllFilesAreRun(t *testing.T) {
	known := map[string]bool{}
	for _, name := range []string{"frames", "malformed", "channel_tx", "channel_rx", "transfer", "peer", "session", "formulas"} {
		known[name+".json"] = true
	}
	for name := range vectors.Files(t, "porous") {
		require.True(t, known[name], "no test runs %s", name)
	}
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

type vectorMessage struct {
	Type           string
	Channel        uint8
	PacketID       uint32 `json:"packet_id"`
	DependencyLead uint16 `json:"dependency_lead"`
	FragmentID     uint16 `json:"fragment_id"`
	LastFragmentID uint16 `json:"last_fragment_id"`
	Data           hexBytes
}

func (v *vectorMessage) message(t *testing.T) Message {
	m := Message{Channel: v.Channel, Packet: v.PacketID, Lead: v.DependencyLead}
	switch v.Type {
	case "fragment":
		m.Fragment, m.Last, m.Data = v.FragmentID, v.LastFragmentID, v.Data
	case "sentinel":
		m.Type = MessageSentinel
	case "window_ack":
		m.Type = MessageWindowAck
	default:
		t.Fatalf("message type %q", v.Type)
	}
	return m
}

type vectorFields struct {
	Type         string
	Version      uint8
	Channels     int    `json:"channels_minus_1"`
	MaxBandwidth uint32 `json:"max_rx_bandwidth"`
	ID           uint32
	FrameID      uint32 `json:"frame_id"`
	Messages     []vectorMessage
	FrameIDs     []uint32 `json:"frame_ids"`
}

func (f *vectorFields) append(t *testing.T, b []byte) []byte {
	switch f.Type {
	case "connect":
		return AppendConnect(b, Connect{f.Version, f.Channels + 1, f.MaxBandwidth, f.ID})
	case "connect_ack":
		return AppendConnectAck(b, f.ID)
	case "disconnect":
		return AppendDisconnect(b)
	case "disconnect_ack":
		return AppendDisconnectAck(b)
	case "ping":
		return AppendPing(b, TypePing, uint16(f.ID))
	case "ping_ack":
		return AppendPing(b, TypePingAck, uint16(f.ID))
	case "data":
		b = AppendDataHeader(b, f.FrameID, len(f.Messages))
		for i := range f.Messages {
			m := f.Messages[i].message(t)
			b = AppendMessage(b, &m)
		}
		return b
	case "data_ack":
		return AppendDataAck(b, f.FrameIDs)
	}
	t.Fatalf("frame type %q", f.Type)
	return nil
}

// parseFrame parses any frame and appends it again.
func parseFrame(b []byte) (again []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	switch FrameType(b[0]) {
	case TypeConnect:
		c, ok := ParseConnect(b)
		return AppendConnect(nil, c), ok
	case TypeConnectAck:
		id, ok := ParseConnectAck(b)
		return AppendConnectAck(nil, id), ok
	case TypeDisconnect:
		return AppendDisconnect(nil), ParseBare(b, TypeDisconnect)
	case TypeDisconnectAck:
		return AppendDisconnectAck(nil), ParseBare(b, TypeDisconnectAck)
	case TypePing, TypePingAck:
		id, ok := ParsePing(b, FrameType(b[0]))
		return AppendPing(nil, FrameType(b[0]), id), ok
	case TypeData:
		id, n, rest, ok := ParseData(b)
		if !ok {
			return nil, false
		}
		again = AppendDataHeader(nil, id, n)
		for range n {
			var m Message
			m, rest, _ = NextMessage(rest)
			again = AppendMessage(again, &m)
		}
		return again, true
	case TypeDataAck:
		list, ok := ParseDataAck(b)
		if !ok {
			return nil, false
		}
		var ids []uint32
		for len(list) > 0 {
			var id uint32
			id, list = FrameID(list)
			ids = append(ids, id)
		}
		return AppendDataAck(nil, ids), true
	}
	return nil, false
}

func TestVectorsFrames(t *testing.T) {
	v := readVectors[struct {
		Frames []struct {
			Name   string
			Hex    hexBytes
			Fields vectorFields
		}
	}](t, "frames.json")
	require.NotEmpty(t, v.Frames)
	for _, f := range v.Frames {
		require.Equal(t, []byte(f.Hex), f.Fields.append(t, nil), f.Name)
		again, ok := parseFrame(f.Hex)
		require.True(t, ok, f.Name)
		require.Equal(t, []byte(f.Hex), again, f.Name)
	}
}

// Q5: what is inconsistent is ignored, whole frames or single messages.
func TestVectorsMalformed(t *testing.T) {
	type malformed struct {
		Name, Reason string
		Hex          hexBytes
		Fields       vectorFields
	}
	v := readVectors[struct {
		Reject  []malformed `json:"must_reject"`
		Nothing []malformed `json:"must_parse_but_deliver_nothing"`
	}](t, "malformed.json")
	require.NotEmpty(t, v.Reject)
	require.NotEmpty(t, v.Nothing)
	for _, f := range v.Reject {
		_, ok := parseFrame(f.Hex)
		require.False(t, ok, "%s: %s", f.Name, f.Reason)
	}
	for _, f := range v.Nothing {
		again, ok := parseFrame(f.Hex)
		require.True(t, ok, f.Name)
		require.Equal(t, []byte(f.Hex), again, f.Name)
		require.Equal(t, []byte(f.Hex), f.Fields.append(t, nil), f.Name)

		p, h := connectedPeer(t, testConfig())
		r := p.recv.channel(0)
		for i := range f.Fields.Messages {
			m := f.Fields.Messages[i].message(t)
			require.NotEqual(t, taken, p.recv.message(&m), "%s: %s", f.Name, f.Reason)
		}
		p.recv.deliver()
		require.Empty(t, h.packets, f.Name)
		require.Zero(t, r.count, f.Name)
		require.Zero(t, r.base, f.Name)
	}
}

func parseMode(t *testing.T, s string) Mode {
	switch s {
	case "reliable":
		return Reliable
	case "unreliable":
		return Unreliable
	case "passive":
		return Passive
	}
	t.Fatalf("mode %q", s)
	return 0
}

func TestVectorsChannelSending(t *testing.T) {
	v := readVectors[struct {
		Traces []struct {
			Name  string
			NQ    uint32 `json:"n_q"`
			M     uint32
			First uint32 `json:"first_packet_id"`
			Ops   []struct {
				Op, Mode string
				Data     hexBytes
				PacketID uint32 `json:"packet_id"`
				Base     uint32
				Out      []struct {
					Reliable bool
					Message  vectorMessage
				}
			}
		}
	}](t, "channel_tx.json")
	require.NotEmpty(t, v.Traces)
	for _, trace := range v.Traces {
		var s sender
		s.init(0, FragmentSize(MTU0), trace.NQ, trace.M)
		s.base, s.next = trace.First, trace.First
		for i, op := range trace.Ops {
			name := fmt.Sprintf("%s, operation %d", trace.Name, i)
			switch op.Op {
			case "send":
				s.push(&outgoing{ch: &s, data: op.Data, mode: parseMode(t, op.Mode),
					last: uint16(max(0, len(op.Data)-1) / s.fragmentSize)})
			case "window_ack":
				s.handleWindowAck(op.PacketID)
			case "flush":
				for _, want := range op.Out {
					require.True(t, s.ready(), name)
					size := s.nextSize()
					p := s.take()
					var m Message
					p.message(&m)
					wanted := want.Message.message(t)
					require.Equal(t, AppendMessage(nil, &wanted), AppendMessage(nil, &m), name)
					require.Equal(t, want.Reliable, p.reliable, name)
					require.Equal(t, m.Size(), size, name)
				}
				require.False(t, s.ready(), name)
				require.Equal(t, op.Base, s.base, name)
			default:
				t.Fatalf("operation %q", op.Op)
			}
		}
	}
}

// Q5, Q6, Q8, Q10.
func TestVectorsChannelReceiving(t *testing.T) {
	v := readVectors[struct {
		Traces []struct {
			Name  string
			NQ    uint32 `json:"n_q"`
			M     uint32
			First uint32 `json:"first_packet_id"`
			Ops   []struct {
				Op        string
				Message   vectorMessage
				Delivered []hexBytes
				WindowAck *uint32 `json:"window_ack"`
				Base      uint32
			}
		}
	}](t, "channel_rx.json")
	require.NotEmpty(t, v.Traces)
	for _, trace := range v.Traces {
		var a pool
		var r receiver
		r.init(&a, FragmentSize(MTU0), 1<<20, trace.NQ, trace.M, trace.First)
		for i, op := range trace.Ops {
			name := fmt.Sprintf("%s, operation %d", trace.Name, i)
			switch op.Op {
			case "message":
				m := op.Message.message(t)
				switch {
				case m.Type == MessageSentinel:
					r.sentinel(&m)
				case r.check(&m) == taken:
					r.fragment(&m)
				}
			case "receive":
				old := r.base
				var got []hexBytes
				for e := r.scan(); e != nil; e = r.scan() {
					var packet []byte
					for _, piece := range e.pieces {
						packet = append(packet, piece.data...)
					}
					got = append(got, packet)
					r.advance(nextPacket(e.id))
				}
				require.Len(t, got, len(op.Delivered), name)
				for i := range got {
					require.Equal(t, string(op.Delivered[i]), string(got[i]), name)
				}
				require.Equal(t, op.Base, r.base, name)
				id, due := r.due(old)
				if require.Equal(t, op.WindowAck != nil, due, name); due {
					require.Equal(t, *op.WindowAck, id, name)
				}
			default:
				t.Fatalf("operation %q", op.Op)
			}
		}
		r.reset()
		require.Zero(t, r.bytes, trace.Name)
	}
}

// A settlement notes the packets of settled parts.
type settlement struct{}

func (settlement) settlePart(*part, bool) {}

func TestVectorsTransfer(t *testing.T) {
	v := readVectors[struct {
		Queues []struct {
			Name  string
			First uint32 `json:"first_frame_id"`
			Ops   []struct {
				Op                   string
				Unreliable, Reliable []vectorMessage
				FrameIDs             []uint32 `json:"frame_ids"`
				BytesAcked           int      `json:"bytes_acked"`
				FlightSize           int      `json:"flight_size"`
				WindowSpan           uint32   `json:"window_span"`
				T                    int      `json:"t_ms"`
				RTO                  int      `json:"rto_ms"`
				Window               int      `json:"congestion_window"`
				AnyDropped           bool     `json:"any_dropped"`
				Sent                 []hexBytes
			}
		}
	}](t, "transfer.json")
	require.NotEmpty(t, v.Queues)
	for _, trace := range v.Queues {
		var q transfer
		q.init(trace.First, 32768, 16384)
		for i, op := range trace.Ops {
			name := fmt.Sprintf("%s, operation %d", trace.Name, i)
			switch op.Op {
			case "push":
				id, f := q.add()
				for _, m := range op.Unreliable {
					f.parts = append(f.parts, vectorPart(t, m, false))
				}
				for _, m := range op.Reliable {
					f.parts = append(f.parts, vectorPart(t, m, true))
				}
				q.seal(id, f)
			case "ack":
				bytes := 0
				for _, id := range op.FrameIDs {
					if f := q.get(id); f != nil {
						bytes += f.size
						q.ack(f, settlement{})
					}
				}
				require.Equal(t, op.BytesAcked, bytes, name)
				require.Equal(t, op.FlightSize, q.flight, name)
				require.Equal(t, op.WindowSpan, q.span(), name)
			case "step":
				now := Clock(op.T) * time.Millisecond
				dropped := q.expire(now, time.Duration(op.RTO)*time.Millisecond, settlement{})
				require.Equal(t, op.AnyDropped, dropped, name)
				var out wire.Batch
				for left := op.Window; ; {
					id, f := q.firstWaiting()
					if f == nil || f.size > left {
						break
					}
					left -= f.size
					f.append(id, &out)
					q.sent(now, id, f)
				}
				require.Equal(t, len(op.Sent), out.Len(), name)
				for i, want := range op.Sent {
					require.Equal(t, []byte(want), out.At(i), name)
				}
				require.Equal(t, op.FlightSize, q.flight, name)
			default:
				t.Fatalf("operation %q", op.Op)
			}
		}
	}
}

// vectorPart returns a part that is written as m.
func vectorPart(t *testing.T, v vectorMessage, reliable bool) part {
	m := v.message(t)
	ch := &sender{number: m.Channel, fragmentSize: FragmentSize(MTU0), window: 65536,
		base: m.Packet, next: nextPacket(m.Packet), mark: m.Packet}
	p := part{kind: m.Type, reliable: reliable, id: m.Packet, lead: m.Lead, ch: ch}
	if m.Type == MessageFragment {
		require.Zero(t, m.Last, "the recordings have whole packets only")
		p.packet = &outgoing{ch: ch, data: m.Data, id: m.Packet, lead: m.Lead, hasID: true}
	}
	return p
}

func TestVectorsCongestionWindow(t *testing.T) {
	v := readVectors[struct {
		CongestionWindow []struct {
			Name      string
			Bandwidth uint64
			Ops       []struct {
				Op, Effect string
				T          int64 `json:"t_us"`
				RTT        int64 `json:"rtt_us"`
				RTO        int64 `json:"rto_us"`
				Bytes      int
				W          int
				SS         int
				WMax       int `json:"w_max"`
			}
		} `json:"congestion_window"`
	}](t, "formulas.json")
	require.NotEmpty(t, v.CongestionWindow)
	for _, trace := range v.CongestionWindow {
		c := newPaperController(MTU0)
		var rto time.Duration
		var first Clock
		failing := false
		for i, op := range trace.Ops {
			name := fmt.Sprintf("%s, operation %d", trace.Name, i)
			now := Clock(op.T) * time.Microsecond
			switch op.Op {
			case "rtt":
				rto = time.Duration(op.RTO) * time.Microsecond
				c.SetRTT(time.Duration(op.RTT)*time.Microsecond, trace.Bandwidth)
				require.Equal(t, op.WMax, c.limit, name)
			case "ack":
				failing = false
				c.HandleAck(Ack{Now: now, Bytes: op.Bytes, Frames: 1})
			case "drop":
				if !failing {
					failing, first = true, now
				}
				before := c.window
				c.HandleLoss(now, Loss{Bytes: 1, First: first, RTO: rto})
				if op.Effect == "ignored" {
					require.Equal(t, before, c.window, name)
				}
			default:
				t.Fatalf("operation %q", op.Op)
			}
			require.Equal(t, op.W, c.window, name)
			require.Equal(t, op.SS, c.threshold, name)
		}
	}
}

// T15: in both variants of the first sample.
func TestVectorsRTT(t *testing.T) {
	v := readVectors[struct {
		RTT []struct {
			Name    string
			Step    float64 `json:"step_avg_ms"`
			Samples []struct {
				Ping float64 `json:"ping_ms"`
				Avg  float64 `json:"rtt_avg_ms"`
				Var  float64 `json:"rtt_var_ms"`
				RTO  float64 `json:"rto_ms"`
			}
		}
	}](t, "formulas.json")
	require.NotEmpty(t, v.RTT)
	ms := func(x float64) time.Duration { return time.Duration(math.Round(x * 1e6)) }
	for _, trace := range v.RTT {
		var r rtt
		r.init(trace.Name == "paper_initial_200ms", ms(trace.Step), 0)
		for i, s := range trace.Samples {
			r.add(ms(s.Ping))
			name := fmt.Sprintf("%s, sample %d", trace.Name, i)
			require.InDelta(t, ms(s.Avg), r.avg, 10, name)
			require.InDelta(t, ms(s.Var), r.dev, 10, name)
			require.InDelta(t, ms(s.RTO), r.rto(), 50, name)
		}
	}
}

func TestVectorsReceiveWindow(t *testing.T) {
	v := readVectors[struct {
		ReceiveWindow []struct {
			NP     uint32 `json:"n_p"`
			First  uint32 `json:"first_expected"`
			Frames []struct {
				ID       uint32 `json:"frame_id"`
				Accepted bool
				Next     uint32 `json:"next_expected"`
			}
		} `json:"receive_window"`
	}](t, "formulas.json")
	require.NotEmpty(t, v.ReceiveWindow)
	for _, trace := range v.ReceiveWindow {
		w := frameWindow{next: trace.First, size: trace.NP}
		for i, f := range trace.Frames {
			name := fmt.Sprintf("N_P %d, frame %d", trace.NP, i)
			accepted := w.accepts(f.ID)
			if accepted {
				w.move(f.ID)
			}
			require.Equal(t, f.Accepted, accepted, name)
			require.Equal(t, f.Next, w.next, name)
		}
	}
}
