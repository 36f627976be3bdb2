package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/dissect"
	"volley/internal/testenv"
	"volley/internal/vectors"
)

// Ports by which Wireshark is told the protocols in the tests.
var dissectorPorts = map[dissect.Protocol]uint16{
	dissect.Reliable: 7001, dissect.Netcode: 7002, dissect.Porous: 7003, dissect.Riptide: 7004,
	dissect.RiptideNotes: 7005, dissect.Netplay: 7006,
}

// ipPacket returns a packet of IPv4 with a payload of UDP or TCP. That of TCP is
// the beginning of a connection's data.
func ipPacket(from, to netip.AddrPort, tcp bool, payload []byte) []byte {
	header, protocol := 8, byte(17)
	if tcp {
		header, protocol = 20, 6
	}
	b := make([]byte, 20+header, 20+header+len(payload))
	b[0], b[8], b[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+header+len(payload)))
	copy(b[12:], from.Addr().AsSlice())
	copy(b[16:], to.Addr().AsSlice())
	h := b[20:]
	binary.BigEndian.PutUint16(h, from.Port())
	binary.BigEndian.PutUint16(h[2:], to.Port())
	if tcp {
		binary.BigEndian.PutUint32(h[4:], 1)
		h[12], h[13] = 5<<4, 0x18
	} else {
		binary.BigEndian.PutUint16(h[4:], uint16(8+len(payload)))
	}
	return append(b, payload...)
}

// pcapFile returns a capture of packets of IP, a second apart.
func pcapFile(packets ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = append(b, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0)
	for i, p := range packets {
		for _, v := range []int{1_700_000_000 + i, 0, len(p), len(p)} {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		b = append(b, p...)
	}
	return b
}

// A dissected packet is what Wireshark is to see in one.
type dissectedPacket struct {
	protocol dissect.Protocol
	base     int // where the payload begins
	payload  []byte
	want     []dissect.Datagram
	at       []int // where each of them begins
}

// recordedPackets returns packets with all recorded datagrams.
func recordedPackets(t *testing.T) (list []dissectedPacket) {
	udp := func(p dissect.Protocol, recordings []vectors.Recording) {
		for _, r := range recordings {
			if len(r.Bytes) > 0 {
				list = append(list, dissectedPacket{p, 28, r.Bytes, []dissect.Datagram{dissect.Decode(p, r.Bytes, nil)}, []int{0}})
			}
		}
	}
	tcp := func(p dissect.Protocol, recordings []vectors.Recording) {
		for _, r := range recordings {
			if want, at := streamed(p, r.Bytes); len(want) > 0 {
				list = append(list, dissectedPacket{p, 40, r.Bytes, want, at})
			}
		}
	}
	udp(dissect.Reliable, vectors.Recordings(t, "reliable", "hex", "datagrams"))
	udp(dissect.Netcode, vectors.Recordings(t, "netcode", "packet", "request_packet"))
	udp(dissect.Porous, vectors.Recordings(t, "porous", "hex", "sent"))
	udp(dissect.Riptide, vectors.Recordings(t, "riptide", "hex", "ack"))
	udp(dissect.RiptideNotes, vectors.Recordings(t, "riptide", "hex"))
	tcp(dissect.Riptide, vectors.Recordings(t, "riptide", "wire_hex"))
	tcp(dissect.Netplay, vectors.Recordings(t, "netplay", "wire", "reference_wire", "page_hex", "segments"))
	return list
}

// streamed returns what is on a stream that begins with b, up to the first
// datagram that is not whole.
func streamed(p dissect.Protocol, b []byte) (list []dissect.Datagram, at []int) {
	for off := 0; off < len(b); {
		n, err := dissect.Next(p, b[off:])
		if err != nil {
			n = len(b) - off
		}
		if n == 0 || off+n > len(b) {
			return list, at
		}
		list = append(list, dissect.Decode(p, b[off:off+n], &dissect.Options{Stream: true}))
		at = append(at, off)
		off += n
	}
	return list, at
}

// TestDissector has tshark dissect every recorded datagram, and compares every
// field with what decode shows, which is compared with the parsers of the
// protocols by tests of theirs.
func TestDissector(t *testing.T) {
	tshark := needTshark(t)
	list := recordedPackets(t)
	if testing.Short() || testenv.Race { // the race detector has nothing to find here
		thin := list[:0]
		for i := 0; i < len(list); i += 25 {
			thin = append(thin, list[i])
		}
		list = thin
	}
	packets := make([][]byte, len(list))
	for i, p := range list {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 50000)
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), dissectorPorts[p.protocol])
		packets[i] = ipPacket(from, to, p.base == 40, p.payload)
	}
	seen := 0
	runTshark(t, tshark, pcapFile(packets...), func(layers []jsonNode) {
		if seen < len(list) {
			checkDissected(t, seen, &list[seen], layers)
		}
		seen++
	})
	require.Equal(t, len(list), seen)
	if !testing.Short() && !testenv.Race {
		require.Greater(t, seen, 15000)
	}
}

// needTshark returns where tshark is.
func needTshark(t *testing.T) string {
	t.Helper()
	name, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("SKIPPED, LOUDLY: tshark is not here, so THE DISSECTOR FOR WIRESHARK IS NOT TESTED; on Debian: apt-get install tshark")
	}
	return name
}

// runTshark calls f with the layers that tshark sees in each packet of a capture,
// those of this module alone.
func runTshark(t *testing.T, tshark string, capture []byte, f func([]jsonNode), more ...string) {
	t.Helper()
	dir := t.TempDir()
	file, lua := filepath.Join(dir, "recorded.pcap"), filepath.Join(dir, "volley.lua")
	require.NoError(t, os.WriteFile(file, capture, 0o600))
	require.NoError(t, os.WriteFile(lua, []byte(command(t.Context(), devNull(t), "decode", "--dissector").stdout), 0o600))
	args := []string{"-n", "-X", "lua_script:" + lua, "-r", file, "-T", "json", "-x", "-J",
		"volley.reliable volley.netcode volley.porous volley.riptide volley.riptide_notes volley.netplay"}
	if len(more) == 0 {
		for p, port := range dissectorPorts {
			name := "volley." + strings.ReplaceAll(string(p), "-", "_")
			also, only := p.Streams()
			if !only {
				args = append(args, "-d", fmt.Sprintf("udp.port==%d,%s", port, name))
			}
			if also {
				args = append(args, "-d", fmt.Sprintf("tcp.port==%d,%s", port, name))
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), tshark, append(args, more...)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "LC_ALL=C.UTF-8") // no preferences of the user's
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	err = readLayers(out, f)
	if err != nil {
		io.Copy(io.Discard, out) // so that it can end
	}
	waitErr := cmd.Wait()
	require.NoError(t, err, "%s", &stderr)
	require.NoError(t, waitErr, "%s", &stderr)
	require.NotContains(t, stderr.String(), "Lua")
}

// A jsonNode is a member of an object, of which there may be several of one name:
// a string, a list of other values, or an object.
type jsonNode struct {
	name  string
	value any // string, []any or []jsonNode
}

// readLayers calls f with the layers of each packet of tshark's JSON.
func readLayers(r io.Reader, f func([]jsonNode)) error {
	dec := json.NewDecoder(r)
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		packet, err := readJSON(dec)
		if err != nil {
			return err
		}
		f(member(member(packet, "_source"), "layers"))
	}
	_, err := dec.Token()
	return err
}

// member returns the object of a name in an object.
func member(object any, name string) []jsonNode {
	nodes, _ := object.([]jsonNode)
	for _, n := range nodes {
		if n.name == name {
			inner, _ := n.value.([]jsonNode)
			return inner
		}
	}
	return nil
}

func readJSON(dec *json.Decoder) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	var list []any
	nodes := []jsonNode{}
	switch tok {
	case json.Delim('['):
		for dec.More() {
			v, err := readJSON(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	case json.Delim('{'):
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := readJSON(dec)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, jsonNode{key.(string), v})
		}
		_, err = dec.Token()
		return nodes, err
	}
	return tok, nil
}

// A wireField is a field as Wireshark shows it.
type wireField struct {
	name, value string
	at, n       int
}

// wireFields returns the fields in a layer, in order, and its remarks.
func wireFields(nodes []jsonNode) (fields []wireField, remarks []string) {
	at, n := -1, -1
	for _, node := range nodes {
		if list, ok := node.value.([]any); ok && strings.HasSuffix(node.name, "_raw") {
			at, n = int(list[1].(float64)), int(list[2].(float64))
			continue
		}
		inner, _ := node.value.([]jsonNode)
		switch {
		case node.name == "_ws.expert.message":
			remarks = append(remarks, node.value.(string))
		case strings.HasPrefix(node.name, "volley.") && !strings.HasSuffix(node.name, "_tree") && at >= 0:
			value, _ := node.value.(string)
			fields = append(fields, wireField{node.name, value, at, n})
			at, n = -1, -1
		}
		f, r := wireFields(inner)
		fields, remarks = append(fields, f...), append(remarks, r...)
	}
	return fields, remarks
}

// checkDissected compares what Wireshark sees in a packet with what is wanted.
func checkDissected(t *testing.T, number int, p *dissectedPacket, layers []jsonNode) {
	name := "volley." + strings.ReplaceAll(string(p.protocol), "-", "_")
	var found []jsonNode
	for _, l := range layers {
		if l.name == name {
			found = append(found, l)
		}
	}
	if !t.Failed() && len(found) != len(p.want) {
		t.Errorf("packet %d: %d layers of %s, want %d; %x", number+1, len(found), name, len(p.want), p.payload)
		return
	}
	for i := range p.want {
		if !t.Failed() {
			nodes, _ := found[i].value.([]jsonNode)
			compareDissected(t, number, p, &p.want[i], p.base+p.at[i], nodes)
		}
	}
}

func compareDissected(t *testing.T, number int, p *dissectedPacket, want *dissect.Datagram, base int, nodes []jsonNode) {
	got, remarks := wireFields(nodes)
	var fields []wireField
	want.All(func(f dissect.Field, _ int) {
		at := f.Offset
		if f.In == "" {
			at += base
		}
		fields = append(fields, wireField{f.Name, wireValue(f), at, f.Length})
	})
	for i := range max(len(got), len(fields)) {
		var a, b wireField
		if i < len(got) {
			a = got[i]
			a.value = plainValue(a.value, fields, i)
		}
		if i < len(fields) {
			b = fields[i]
		}
		if a != b {
			t.Errorf("packet %d, field %d: Wireshark sees %v, decode %v; %s %x", number+1, i, a, b, p.protocol, p.payload)
			return
		}
	}
	wantRemark := want.Problem
	if wantRemark == "" {
		wantRemark = want.Note
	}
	require.Equal(t, wantRemark, strings.Join(remarks, ""), "packet %d: %s %x", number+1, p.protocol, p.payload)
}

// wireValue formats the value of a field, numbers in decimal digits.
func wireValue(f dissect.Field) string {
	switch v := f.Value.(type) {
	case nil:
		return ""
	case []byte:
		return hex.EncodeToString(v)
	case bool:
		if v {
			return "1"
		}
		return "0"
	}
	return fmt.Sprint(f.Value)
}

// plainValue brings a value of Wireshark's into the same form.
func plainValue(value string, want []wireField, i int) string {
	if v, err := strconv.ParseUint(value, 0, 64); err == nil && strings.HasPrefix(value, "0x") {
		return strconv.FormatUint(v, 10)
	}
	if i < len(want) && strings.ReplaceAll(value, ":", "") == want[i].value {
		return want[i].value
	}
	return value
}

// layersSeen returns the names of this module's layers in each packet.
func layersSeen(t *testing.T, tshark string, capture []byte, args ...string) (seen []string) {
	t.Helper()
	runTshark(t, tshark, capture, func(layers []jsonNode) {
		var names []string
		for _, l := range layers {
			if strings.HasPrefix(l.name, "volley.") && !strings.HasSuffix(l.name, "_raw") {
				names = append(names, strings.TrimPrefix(l.name, "volley."))
			}
		}
		seen = append(seen, strings.Join(names, " "))
	}, args...)
	return seen
}

// TestDissectorPorts: ports are told in preferences, and connections are found on
// any other one only where a preference says so.
func TestDissectorPorts(t *testing.T) {
	tshark := needTshark(t)
	packet := func(port uint16, tcp bool, digits string) []byte {
		return ipPacket(captureClient, netip.AddrPortFrom(captureServer.Addr(), port), tcp, unhex(t, digits))
	}
	request := "00" + hex.EncodeToString([]byte("NETCODE 1.02\x00")) + strings.Repeat("00", 1064)
	capture := pcapFile(
		packet(9001, false, firstHex), packet(9001, false, "20e80364"),
		packet(9002, false, "0000 01 ffffffff 12345678"), packet(9002, false, "02"),
		packet(9003, false, request), packet(9003, false, "16"+strings.Repeat("00", 17)),
		packet(9004, false, "20e80364"),
		packet(9005, true, "0100000002"),
		packet(9006, true, "000300007b000300007b"),
	)
	none := make([]string, 9)
	require.Equal(t, none, layersSeen(t, tshark, capture, "-o", "volley.reliable.fragment_size:8"))
	require.Equal(t, []string{"reliable", "reliable", "porous", "porous", "netcode", "netcode", "", "", ""},
		layersSeen(t, tshark, capture, "-o", "volley.reliable.heuristic:TRUE", "-o", "volley.porous.heuristic:TRUE", "-o", "volley.netcode.heuristic:TRUE"))
	require.Equal(t, []string{"reliable", "reliable", "", "", "netcode", "netcode", "reliable", "riptide", "netplay netplay"},
		layersSeen(t, tshark, capture, "-o", "volley.reliable.udp_ports:9001,9004-9009", "-o", "volley.netcode.udp_ports:9003",
			"-o", "volley.riptide.tcp_ports:9005", "-o", "volley.netplay.tcp_ports:9006"))
}

// TestDissectorFragments checks fragments by the sizes in the preferences.
func TestDissectorFragments(t *testing.T) {
	tshark := needTshark(t)
	var list []dissectedPacket
	var packets [][]byte
	for _, r := range vectors.Recordings(t, "reliable", "hex") {
		if r.File != "fragment_header_decode.jsonl" {
			continue
		}
		d := dissect.Decode(dissect.Reliable, r.Bytes, &dissect.Options{MaxFragments: 16, FragmentSize: 8})
		list = append(list, dissectedPacket{dissect.Reliable, 28, r.Bytes, []dissect.Datagram{d}, []int{0}})
		packets = append(packets, ipPacket(captureClient, captureServer, false, r.Bytes))
	}
	seen := 0
	runTshark(t, tshark, pcapFile(packets...), func(layers []jsonNode) {
		if seen < len(list) {
			checkDissected(t, seen, &list[seen], layers)
		}
		seen++
	}, "-d", "udp.port==7777,volley.reliable", "-o", "volley.reliable.fragment_size:8", "-o", "volley.reliable.max_fragments:16")
	require.Equal(t, len(list), seen)
	require.Greater(t, seen, 90)
}
