package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/vectors"
)

var (
	captureClient = netip.MustParseAddrPort("10.0.0.1:50000")
	captureServer = netip.MustParseAddrPort("10.0.0.2:7777")
	captureOther  = netip.MustParseAddrPort("10.0.0.2:7778")
)

func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := parseHex(digits)
	require.NoError(t, err)
	return b
}

// captureOf writes a capture and returns its name.
func captureOf(t *testing.T, packets ...[]byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "test.pcap")
	require.NoError(t, os.WriteFile(name, pcapFile(packets...), 0o600))
	return name
}

func TestDecodeCapture(t *testing.T) {
	fragment := ipPacket(captureClient, captureServer, false, []byte("x"))
	fragment[6] = 0x20
	short := ipPacket(captureServer, captureClient, false, unhex(t, firstHex))
	name := captureOf(t,
		ipPacket(captureClient, captureServer, false, unhex(t, firstHex)),
		ipPacket(captureServer, captureClient, false, unhex(t, "20e80364")),
		ipPacket(captureClient, captureOther, false, unhex(t, "20e80364")),
		fragment, short[:len(short)-3],
		ipPacket(captureClient, captureOther, false, unhex(t, "ff")),
	)
	const want = `22:13:20.000000 10.0.0.1:50000 > 10.0.0.2:7777 reliable packet 0, has heard nothing, 5 bytes
22:13:21.000000 10.0.0.2:7777 > 10.0.0.1:50000 reliable packet 1000, ack 900, 32 of 32 received, no payload
22:13:22.000000 10.0.0.1:50000 > 10.0.0.2:7778 reliable packet 1000, ack 900, 32 of 32 received, no payload
22:13:23.000000 a fragment of IP, 29 bytes, not decoded
22:13:24.000000 10.0.0.2:7777 > 10.0.0.1:50000 reliable packet 0, has heard nothing, 2 bytes (3 bytes were not captured; see tcpdump -s)
22:13:25.000000 10.0.0.1:50000 > 10.0.0.2:7778 reliable fragment, malformed: fragment is shorter than 5 bytes
`
	got := command(t.Context(), devNull(t), "decode", "-p", "reliable", name)
	require.Equal(t, exitOK, got.status, got.stderr)
	require.Equal(t, want, got.stdout)

	require.Equal(t, got.stdout, command(t.Context(), open(t, name), "decode", "-p", "reliable").stdout, "from standard input")
	o := command(t.Context(), devNull(t), "decode", "-p", "reliable", "--port", "7777", name)
	require.Equal(t, 3, strings.Count(o.stdout, "\n"), o.stdout)

	o = command(t.Context(), devNull(t), "decode", "-p", "reliable", "--json", "--port", "7778", name)
	first, _, _ := strings.Cut(o.stdout, "\n")
	var line decodedJSON
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	require.Equal(t, []string{"10.0.0.1:50000", "10.0.0.2:7778"}, []string{line.From, line.To})
	require.Equal(t, int64(1_700_000_002), line.Time.Unix())
}

// TestDecodeStreams takes datagrams out of streams, in whatever pieces they came.
func TestDecodeStreams(t *testing.T) {
	frames := unhex(t, "00070000670000002a000800006a0003616263")
	segment := func(seq int, b []byte) []byte {
		p := ipPacket(captureClient, captureServer, true, b)
		binary.BigEndian.PutUint32(p[24:], uint32(seq))
		return p
	}
	const two = "netplay message of type 103, 4 bytes\nnetplay message of type 106, 5 bytes\n"
	lines := func(args ...string) string {
		o := command(t.Context(), devNull(t), append([]string{"decode"}, args...)...)
		require.Equal(t, exitOK, o.status, o.stderr)
		var b strings.Builder
		for line := range strings.Lines(o.stdout) {
			_, line, _ = strings.Cut(line, "7777 ")
			b.WriteString(line)
		}
		return b.String()
	}
	for cut := range frames {
		name := captureOf(t, segment(1, frames[:cut]), segment(1+cut, frames[cut:]))
		require.Equal(t, two, lines("--protocol", "netplay", name), cut)
		syn := segment(0, nil)
		syn[33] = 2
		name = captureOf(t, syn, segment(1+cut, frames[cut:]), segment(1, frames[:cut]))
		require.Equal(t, two, lines("--protocol", "netplay", name), cut)
	}
	bad := append(frames[:9:9], 0, 1, 2, 3)
	require.Equal(t, "netplay message of type 103, 4 bytes\n"+
		"netplay malformed: a length of 1, less than 3 (the rest of the stream is not decoded)\n",
		lines("--protocol", "netplay", captureOf(t, segment(1, bad), segment(14, frames))))

	riptide := unhex(t, "01000000 02 05000000 18 00 10 00 00")
	require.Equal(t, "riptide connect\nriptide welcome 1, client 1\n", lines("--protocol", "riptide", captureOf(t, segment(1, riptide))))
	require.Equal(t, "", lines("--protocol", "reliable", captureOf(t, segment(1, riptide))))
}

func TestDecodeCaptureErrors(t *testing.T) {
	whole := pcapFile(ipPacket(captureClient, captureServer, false, unhex(t, firstHex)))
	for want, content := range map[string][]byte{
		"the capture ends within a packet; was it cut off":  whole[:len(whole)-1],
		"the capture has no packets":                        pcapFile(),
		"no UDP and no TCP among 1 packet":                  pcapFile([]byte("hello")),
		"link type 7 is not known here":                     append(append(whole[:20:20], 7, 0, 0, 0), whole[24:]...),
		"no packet of port [1] among 1 packet":              whole,
		`is a capture of volley; "volley capture FILE --pc`: []byte("vlycap\r\n and more"),
		"is compressed; unpack it with gunzip first":        []byte("\x1f\x8b\x08\x00\x00"),
	} {
		name := filepath.Join(t.TempDir(), "test.pcap")
		require.NoError(t, os.WriteFile(name, content, 0o600))
		o := command(t.Context(), devNull(t), "decode", "-p", "reliable", "--port", "1", name)
		require.Equal(t, exitFailure, o.status, want)
		require.Contains(t, o.stderr, want)
	}
}

// TestDecodeToken opens recorded packets with the token of their session.
func TestDecodeToken(t *testing.T) {
	var recorded struct {
		Cases []struct {
			ConnectToken string `json:"connect_token"`
			Steps        []struct {
				In, Out []struct{ Packet, Plain, Type string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(vectors.Files(t, "netcode")["client_scenarios.json"], &recorded))
	opened := 0
	for _, c := range recorded.Cases {
		b, err := hex.DecodeString(c.ConnectToken)
		require.NoError(t, err)
		name := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(name, b, 0o600))
		for _, step := range c.Steps {
			for _, p := range step.Out {
				if p.Type != "payload" || len(p.Plain) == 0 {
					continue
				}
				o := command(t.Context(), devNull(t), "decode", "--json", "--token", name, "--protocol", "netcode", p.Packet)
				require.Contains(t, o.stdout, `"value":"`+p.Plain+`"`, o.stderr)
				require.Contains(t, o.stdout, "from the client")
				opened++
			}
		}
	}
	require.Positive(t, opened)
	o := command(t.Context(), devNull(t), "decode", "-p", "netcode", "--token", filepath.Join(t.TempDir(), "none"), firstHex)
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.stderr, "--token: open")
}

// TestDecodeOthersFiles reads what other programs have made of a capture.
func TestDecodeOthersFiles(t *testing.T) {
	tshark := needTshark(t)
	var packets [][]byte
	for _, r := range vectors.Recordings(t, "porous", "sent", "hex") {
		packets = append(packets, ipPacket(captureClient, captureServer, false, r.Bytes))
	}
	name := captureOf(t, packets...)
	want := command(t.Context(), devNull(t), "decode", "-p", "porous", name)
	require.Equal(t, exitOK, want.status)
	for _, format := range []string{"pcapng", "nsecpcap"} {
		other := filepath.Join(t.TempDir(), format)
		out, err := exec.CommandContext(t.Context(), tshark, "-n", "-r", name, "-F", format, "-w", other).CombinedOutput()
		require.NoError(t, err, "%s", out)
		got := command(t.Context(), devNull(t), "decode", "-p", "porous", other)
		require.Equal(t, want, got, format)
	}
}

// FuzzDecode gives any input to decode, which says what is wrong with it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("00000000  3e 00 00 01 00 00 00 00\n*\n00000018  68\n00000019\n"))
	f.Add([]byte("\t0x0000:  4500 0029\n\t0x0004:  0001\n# x\n3e:00"))
	f.Add(pcapFile(ipPacket(captureClient, captureServer, false, []byte("hello")), ipPacket(captureClient, captureServer, true, []byte("\x00\x03\x00\x00\x00"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, o := range []decodeOptions{{protocol: "reliable", verbose: true}, {protocol: "netcode", json: true}, {protocol: "netplay"}, {protocol: "riptide", tcp: true}} {
			var out strings.Builder
			p, err := newDecodePrinter(&o, &out)
			require.NoError(t, err)
			if err := decodeReader(p, strings.NewReader(string(b)), "fuzz"); err != nil && err.Error() == "" {
				t.Error("an error without words")
			}
		}
	})
}
