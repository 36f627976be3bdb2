package core

import (
	"fmt"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

func TestVectorsPeer(t *testing.T) {
	v := readVectors[struct {
		Peers []struct {
			Name         string
			Channels     int
			MaxBandwidth uint32 `json:"max_rx_bandwidth"`
			OwnID        uint32 `json:"own_id"`
			RemoteID     uint32 `json:"remote_id"`
			Ops          []struct {
				In     struct{ Hex hexBytes }
				Out    []struct{ Hex hexBytes }
				State  string
				Events []struct {
					Event   string
					Channel int
					Data    hexBytes
				}
			}
		}
	}](t, "peer.json")
	require.NotEmpty(t, v.Peers)
	for _, trace := range v.Peers {
		cfg := testConfig()
		cfg.Channels, cfg.ReceiveBandwidth = trace.Channels, trace.MaxBandwidth
		var p Peer
		var h recorder
		p.Init(0, cfg, trace.OwnID, &h)
		for i, op := range trace.Ops {
			name := fmt.Sprintf("%s, operation %d", trace.Name, i)
			now := ms(i)
			h = recorder{}
			var out wire.Batch
			p.Receive(now, op.In.Hex, &out)
			p.EndBatch(now, &out)
			require.Equal(t, len(op.Out), out.Len(), name)
			for i, want := range op.Out {
				require.Equal(t, []byte(want.Hex), out.At(i), name)
			}
			if state := p.State().String(); state != "zombie" || op.State != "disconnected" {
				require.Equal(t, op.State, state, name)
			}
			var events []string
			for _, e := range h.events {
				if e == EventConnect {
					events = append(events, "connect")
				} else if e == EventDisconnect {
					events = append(events, "disconnect")
				}
			}
			for _, r := range h.packets {
				events = append(events, fmt.Sprintf("receive %d %x", r.channel, r.data))
			}
			var want []string
			for _, e := range op.Events {
				s := e.Event
				if s == "receive" {
					s = fmt.Sprintf("receive %d %x", e.Channel, []byte(e.Data))
				}
				want = append(want, s)
			}
			require.Equal(t, want, events, name)
		}
	}
}

func TestVectorsSession(t *testing.T) {
	type entry struct {
		T                       int `json:"t_ms"`
		Peer, From, Event, Call string
		State, Send             string
		Channel                 int
		Dropped                 bool
		Data, Hex               hexBytes
		Fields                  vectorFields
	}
	v := readVectors[struct {
		Sessions []struct {
			Name     string
			NQ       uint32 `json:"n_q"`
			M        uint32
			Delay    int `json:"one_way_delay_ms"`
			Channels int
			Log      []entry
		}
	}](t, "session.json")
	require.NotEmpty(t, v.Sessions)
	for _, s := range v.Sessions {
		for _, name := range []string{"a", "b"} {
			var arrive []entry
			var own uint32
			found := false
			want := map[int][]string{}
			for _, e := range s.Log {
				switch {
				case e.From == name && e.Fields.Type == "connect" && !found:
					own, found = e.Fields.ID, true
				case e.From != "" && e.From != name && !e.Dropped:
					arrive = append(arrive, e)
				case e.Peer == name && e.Event == "receive":
					want[e.Channel] = append(want[e.Channel], string(e.Data))
				}
			}
			require.True(t, found)
			require.NotEmpty(t, want)
			sort.SliceStable(arrive, func(i, j int) bool { return arrive[i].T < arrive[j].T })

			cfg := testConfig()
			cfg.Channels, cfg.Packets, cfg.SendGroup, cfg.ReceiveGroup = s.Channels, s.NQ, s.M, s.M
			var p Peer
			var h recorder
			var out wire.Batch
			p.Init(0, cfg, own, &h)
			for i, e := range arrive {
				now := ms(e.T + s.Delay)
				p.Receive(now, e.Hex, &out)
				if i+1 == len(arrive) || arrive[i+1].T != e.T {
					p.EndBatch(now, &out)
				}
				out.Reset()
			}
			got := map[int][]string{}
			for _, r := range h.packets {
				got[r.channel] = append(got[r.channel], r.data)
			}
			require.Equal(t, want, got, "%s, peer %s", s.Name, name)
			require.Contains(t, h.events, EventConnect)
		}
	}
}
