package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"volley"
	"volley/capture"
	"volley/internal/loopback"
	"volley/internal/recording"
	"volley/porous"
)

// captureFile has connections captured over loopback, with IPv4, and in memory,
// and returns the file.
func captureFile(t *testing.T, cfg *capture.Config) string {
	t.Helper()
	r, err := capture.NewRecorder(cfg)
	require.NoError(t, err)
	vc := &volley.Config{Capture: r}
	l, err := (&volley.ListenConfig{Config: vc}).Listen(t.Context(), "udp4", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	c, err := volley.Dial("udp4", l.Addr().String())
	require.NoError(t, err)
	talk(t, c, func() *volley.Conn {
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		return s
	})
	a, b := volley.Pipe(vc)
	talk(t, a, func() *volley.Conn { return b })
	p, q := porous.Pipe(&porous.Config{Capture: r})
	_, err = p.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = q.ReadMessage(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, q.Close())
	return save(t, r)
}

// talk exchanges messages, one of which has fragments, and closes.
func talk(t *testing.T, a *volley.Conn, other func() *volley.Conn) {
	t.Helper()
	_, err := a.Write([]byte("hello"))
	require.NoError(t, err)
	b := other()
	for _, size := range []int{1, 1000, 5000} {
		for _, c := range []*volley.Conn{a, b} {
			_, err := c.Write(bytes.Repeat([]byte("x"), size))
			require.NoError(t, err)
		}
	}
	for i := range 7 {
		c := b
		if i >= 4 {
			c = a
		}
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		_, err := c.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
	}
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

func save(t *testing.T, r *capture.Recorder) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bug.vcap")
	f, err := os.Create(name)
	require.NoError(t, err)
	_, err = r.WriteTo(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return name
}

func TestReplayCommand(t *testing.T) {
	name := captureFile(t, nil)
	o := program(t, "replay", name)
	require.Equal(t, exitOK, o.status, o)
	require.Equal(t, 5, strings.Count(o.stdout, "\n  the same, digest "), o.stdout)
	require.Regexp(t, `(?m)^connection 1, reliable, 127\.\S+ to 127\.\S+: \d+ calls in \S+, \d+ datagrams sent, \d+ received, \d+ messages delivered$`, o.stdout)
	require.Contains(t, o.stdout, "connection 2, reliable, a to b:")
	require.Empty(t, o.stderr)
}

func TestReplayCommandFails(t *testing.T) {
	name := captureFile(t, nil)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for what, c := range map[string]struct {
		content string
		status  int
		want    string
	}{
		"truncated": {string(whole[:len(whole)-20]), exitFailure, "ends in the middle of a record"},
		"changed":   {string(whole[:len(whole)/2]) + "?" + string(whole[len(whole)/2+1:]), exitFailure, "capture: at byte "},
		"no file":   {"hello", exitFailure, "not a capture"},
		"empty":     {"", exitFailure, "not a capture"},
	} {
		f := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(f, []byte(c.content), 0o666))
		for _, cmd := range [][]string{{"replay", f}, {"capture", f, "--pcapng", filepath.Join(t.TempDir(), "out")}} {
			o := command(t.Context(), devNull(t), cmd...)
			require.Equal(t, c.status, o.status, what)
			require.Contains(t, o.stderr, c.want, what)
		}
	}
	o := command(t.Context(), devNull(t), "replay", "-")
	require.Contains(t, o.stderr, "must be a file")

	// What differs is said, and is an exit status of its own.
	report := &capture.Replayed{Divergence: &capture.Divergence{Call: 7, Recorded: "was", Replayed: "is"}}
	var out bytes.Buffer
	printReplay(&out, report)
	require.Contains(t, out.String(), "DIVERGES at call 7")
	require.ErrorIs(t, judge([]*capture.Replayed{report}, nil), errDiverges)
	require.Error(t, judge([]*capture.Replayed{{Connection: capture.Connection{Incomplete: true}}}, nil))
}

func TestCaptureCommand(t *testing.T) {
	name := captureFile(t, &capture.Config{OmitPayload: true})
	o := program(t, "replay", name)
	require.Equal(t, exitOK, o.status, o)
	require.Contains(t, o.stdout, "the contents of messages were left out\n")
	o = program(t, "capture", name)
	require.Equal(t, exitFailure, o.status, o)
	require.Contains(t, o.stderr, `"pcapng" not set`)
	require.Equal(t, `"\x1b[31m"`, printable("\x1b[31m"))
	require.Equal(t, `"\x9b"`, printable("\x9b"))
	require.Equal(t, `a "b" \`, printable(`a "b" \`))
}

// datagrams returns those of a capture.
func datagrams(t *testing.T, name string) (all []capture.Packet) {
	t.Helper()
	f := open(t, name)
	r, err := capture.NewReader(f)
	require.NoError(t, err)
	for {
		record, err := r.Next()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		for _, p := range record.Packets {
			p.Data = bytes.Clone(p.Data)
			all = append(all, p)
		}
	}
}

// The pcapng has all datagrams of the capture, as another reader sees them.
func TestPcapng(t *testing.T) {
	for _, omit := range []bool{false, true} {
		name := captureFile(t, &capture.Config{OmitPayload: omit})
		want := datagrams(t, name)
		out := filepath.Join(t.TempDir(), "bug.pcapng")
		o := program(t, "capture", name, "--pcapng", out)
		require.Equal(t, outcome{stdout: strconv.Itoa(len(want)) + " datagrams written to " + out + "\n"}, o)
		r, err := pcapgo.NewNgReader(open(t, out), pcapgo.DefaultNgReaderOptions)
		require.NoError(t, err)
		require.Equal(t, layers.LinkTypeRaw, r.LinkType())
		for i, w := range want {
			data, info, err := r.ReadPacketData()
			require.NoError(t, err)
			require.True(t, info.Timestamp.Equal(w.Time), "%v, %v", info.Timestamp, w.Time)
			require.Equal(t, w.Size-len(w.Data), info.Length-info.CaptureLength)
			p := gopacket.NewPacket(data, layers.LayerTypeIPv4, gopacket.Default)
			ip := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
			udp := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
			require.Equal(t, string(w.Data), string(udp.Payload), "datagram %d", i)
			require.EqualValues(t, w.Size+8, udp.Length)
			require.EqualValues(t, w.Size+28, ip.Length)
			if ip.SrcIP[0] == 192 {
				require.Equal(t, w.Sent, ip.SrcIP[3] == 1)
			}
			if w.Size == len(w.Data) {
				require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
				checked, issues := udp.VerifyChecksum()
				require.NoError(t, checked)
				require.True(t, issues.Valid, issues)
			}
		}
		_, _, err = r.ReadPacketData()
		require.Equal(t, io.EOF, err)
		tshark(t, out, len(want))
	}
}

// A capture is not overwritten by what is made of it.
func TestPcapngSameFile(t *testing.T) {
	name := captureFile(t, nil)
	before, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, in := range []string{name, "-"} {
		o := command(t.Context(), open(t, name), "capture", in, "--pcapng", name)
		require.Equal(t, exitFailure, o.status)
		require.Contains(t, o.stderr, "is the capture itself")
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(before, after))
	}
}

// tshark has Wireshark read a file of n packets without a complaint.
func tshark(t *testing.T, name string, n int) {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Log("NOT CHECKED with Wireshark: there is no tshark (Debian: apt install tshark)")
		return
	}
	cmd := exec.CommandContext(t.Context(), path, "-n", "-r", name, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-T", "fields", "-e", "ip.version", "-e", "ipv6.version", "-e", "udp.length", "-e", "_ws.malformed",
		"-e", "ip.checksum.status", "-e", "udp.checksum.status")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, n)
	for _, line := range lines {
		f := strings.Split(line, "\t")
		require.True(t, f[0] == "4" || f[1] == "6", line)
		require.NotEmpty(t, f[2], line)
		require.Empty(t, f[3], line)
		require.NotEqual(t, "0", f[4], "a wrong checksum: %s", line) // 0 is bad
		require.NotEqual(t, "0", f[5], "a wrong checksum: %s", line)
	}
}

// Every connection has addresses of one kind.
func TestEnds(t *testing.T) {
	for _, c := range []struct{ local, remote, wantLocal, wantRemote string }{
		{"10.0.0.1:7", "10.0.0.2:8", "10.0.0.1:7", "10.0.0.2:8"},
		{"[::]:7", "10.0.0.2:8", "0.0.0.0:7", "10.0.0.2:8"},
		{"[::]:7", "[::ffff:10.0.0.2]:8", "0.0.0.0:7", "10.0.0.2:8"},
		{"0.0.0.0:7", "[2001:db8::1]:8", "[::]:7", "[2001:db8::1]:8"},
		{"[fe80::1%eth0]:7", "[fe80::2%eth0]:8", "[fe80::1]:7", "[fe80::2]:8"},
		{"a", "b", "192.0.2.1:49155", "192.0.2.2:49155"},
		{"", "10.0.0.2:8", "0.0.0.0:0", "10.0.0.2:8"},
		{"10.0.0.1:7", "", "192.0.2.1:49155", "192.0.2.2:49155"},
	} {
		e := endsOf(&capture.Connection{ID: 3, Local: c.local, Remote: c.remote})
		require.Equal(t, [2]string{c.wantLocal, c.wantRemote}, [2]string{e.local.String(), e.remote.String()})
	}
}

// Datagrams over IPv6, and one that is too large for UDP.
func TestPcapngIPv6(t *testing.T) {
	r, err := capture.NewRecorder(nil)
	require.NoError(t, err)
	s := (*recording.Recorder)(r).Open(recording.Connection{Protocol: "test", Local: "[2001:db8::1]:7", Remote: "[2001:db8::2]:8", Start: time.Unix(1e9, 0)})
	for i, n := range []int{0, 1, 1200, 65507, 65508} {
		s.Begin(recording.Receive, time.Duration(i)*time.Second)
		s.Data(make([]byte, n), n)
		s.Outputs().Datagram(make([]byte, n), n)
		s.End()
	}
	name := save(t, r)
	out := filepath.Join(t.TempDir(), "bug.pcapng")
	o := command(t.Context(), devNull(t), "capture", name, "--pcapng", out)
	require.Equal(t, exitOK, o.status)
	require.Contains(t, o.stdout, "8 datagrams written")
	require.Equal(t, "2 datagrams larger than any of UDP left out\n", o.stderr)
	tshark(t, out, 8)
	o = command(t.Context(), open(t, name), "capture", "-", "--pcapng", "-")
	file, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, string(file), o.stdout)
}
