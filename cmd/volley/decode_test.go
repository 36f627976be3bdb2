package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// firstHex is the first packet of a connection, with the payload "hello".
const firstHex = "3e0000010000000068656c6c6f"

const helloLine = "reliable packet 0, has heard nothing, 5 bytes\n"

// TestDecodeHex reads the same datagram in all the forms that digits come in.
func TestDecodeHex(t *testing.T) {
	for name, args := range map[string][]string{
		"plain":    {firstHex},
		"spaced":   {"3e 00 00 01", "00 00 00 00", "6865", "6c6c6f"},
		"prefixed": {"0x3e, 0x00, 0x00, 0x01, 0,0 0,0, 0,0 0,0 0x68656c6c6f"},
		"escaped":  {`"\x3e\x00\x00\x01\x00\x00\x00\x00\x68\x65\x6c\x6c\x6f"`},
		"capitals": {strings.ToUpper(firstHex)},
		"colons":   {"3e:00:00:01:00:00:00:00:68:65:6c:6c:6f"},
	} {
		require.Equal(t, outcome{stdout: helloLine}, command(t.Context(), devNull(t), append([]string{"decode", "-p", "reliable"}, args...)...), name)
	}
	for name, text := range map[string]string{
		"a line":   firstHex + "\n",
		"comments": "# recorded\n\n" + firstHex + " # the first one\r\n\n",
		"groups":   "3e00 0001 0000 0000 6865 6c6c 6f",
	} {
		require.Equal(t, outcome{stdout: helloLine}, command(t.Context(), file(t, text), "decode", "-p", "reliable"), name)
		require.Equal(t, outcome{stdout: helloLine}, command(t.Context(), devNull(t), "decode", "-p", "reliable", file(t, text).Name()), name)
	}
	two := command(t.Context(), file(t, "3e 00 00 01 00 00 00 00 68\n03 e8 03\n"), "decode", "-p", "reliable")
	require.Equal(t, "reliable packet 0, has heard nothing, 1 byte\nreliable notice: packet 1000 belongs to no connection\n", two.stdout)
}

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{"zz"}, "", `"zz" is neither hexadecimal digits ('z' is not a hexadecimal digit) nor a file (open zz`},
		{[]string{"3e", "zz"}, "", "'z' is not a hexadecimal digit; if these are files, decode takes one at a time"},
		{[]string{"3e0"}, "", "3 hexadecimal digits are not a whole number of bytes"},
		{nil, "3e00\nhello\n", "standard input: line 2: 'h' is not a hexadecimal digit"},
		{nil, "0x0000:  3e00\n", `line 1: offsets are no part of a datagram; "xxd -p" prints digits alone`},
		{nil, strings.Repeat("00", 1<<20), "line 1 is longer than 1024 KiB"},
		{[]string{"--protocol", "quic", firstHex}, "", "--protocol must be reliable, netcode, "},
		{[]string{"--protocol", "", firstHex}, "", "nothing in a datagram names its protocol; give --protocol reliable, netcode, "},
		{[]string{"--tcp", "--protocol", "reliable", firstHex}, "", "reliable does not travel over TCP"},
	} {
		o := command(t.Context(), file(t, c.stdin), append([]string{"decode", "-p", "reliable"}, c.args...)...)
		require.Equal(t, exitFailure, o.status, c.args)
		require.Contains(t, o.stderr, c.want, c.args)
	}
}

// TestDecodeVerbose shows every field with its place.
func TestDecodeVerbose(t *testing.T) {
	o := command(t.Context(), devNull(t), "decode", "-p", "reliable", "-v", "01000000023e0000010000000066726167")
	require.Equal(t, `reliable fragment 1 of 3 of packet 0, has heard nothing, 4 bytes
       0+1  type               fragment
       0+1  prefix             0x1
       1+2  sequence           0
       3+1  fragment           0
       4+1  fragments          3
       5+8  header
       5+1    header.prefix    0x3e
       6+2    header.sequence  0
       8+1    ack              65535
       9+4    ack_bits         0x0
      13+4  data               66726167 "frag"

`, o.stdout)
}

func TestDecodeJSON(t *testing.T) {
	o := command(t.Context(), devNull(t), "decode", "-p", "reliable", "--json", firstHex)
	var got decodedJSON
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &got))
	require.Equal(t, "volley.reliable.payload", got.Fields[5].Name)
	require.Equal(t, "68656c6c6f", got.Fields[5].Value)
	require.Equal(t, []int{8, 5, 13}, []int{got.Fields[5].Offset, got.Fields[5].Length, got.Bytes})
	require.Empty(t, got.Problem)

	o = command(t.Context(), devNull(t), "decode", "--json", "--protocol", "reliable", "01000003026d656e74")
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &got))
	require.Equal(t, "fragment id is not below the count", got.Problem)
}

// TestDecodeProtocols reads datagrams of the other protocols.
func TestDecodeProtocols(t *testing.T) {
	for _, c := range [][3]string{
		{"porous", "0000 01 ffffffff 12345678", "porous connect version 0, 2 channels, id 305419896\n"},
		{"porous", "06 12345678 0001 00 01 000005 0002 0000 0000 0005 68656c6c6f",
			"porous data frame 305419896 with 1 message; fragment of packet 5 on channel 1\n"},
		{"riptide", "5240f7b656e606", "riptide connect, 6 bytes\n"},
		{"netplay", "00070000670000002a 0008 00 006a 0003616263", "netplay message of type 103, 4 bytes\nnetplay message of type 106, 5 bytes\n"},
	} {
		require.Equal(t, c[2], command(t.Context(), file(t, c[1]), "decode", "-p", c[0]).stdout, c[1])
	}
	o := command(t.Context(), devNull(t), "decode", "-p", "riptide", "--tcp", "01000000 02 05000000 18 00 10 00 00")
	require.Equal(t, "riptide connect\nriptide welcome 1, client 1\n", o.stdout)
}
