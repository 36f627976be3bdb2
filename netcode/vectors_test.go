package netcode

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/vectors"
	"volley/internal/wire"
)

// vectorTests maps the file names of the golden vectors to their tests.
var vectorTests = map[string]func(*testing.T, []byte){
	"addresses":             testAddresses,
	"connect_tokens":        testConnectTokens,
	"connect_token_rejects": testTokenRejects,
	"challenge_tokens":      testChallengeTokens,
	"packets":               testPackets,
	"packet_reads":          testPacketReads,
	"replay":                testReplay,
	"client_scenarios":      testClientScenarios,
	"server_scenarios":      testServerScenarios,
	"token_lifecycle":       testTokenLifecycle,
}

// TestVectors runs every file of the golden vectors by its name.
func TestVectors(t *testing.T) {
	for name, data := range vectors.Files(t, "netcode") {
		t.Run(name, func(t *testing.T) {
			test := vectorTests[strings.TrimSuffix(path.Base(name), ".json")]
			if test == nil {
				t.Fatalf("no test for the vectors in %s", name)
			}
			test(t, data)
		})
	}
}

// A hexBytes is a byte string that stands in JSON in hexadecimal.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

func (h hexBytes) key() (k Key) {
	copy(k[:], h)
	return k
}

// A num is a 64-bit number that stands in JSON as a decimal string.
type num uint64

func (n *num) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 10, 64)
	*n = num(v)
	return err
}

// decode reads a file of vectors and fails on one without cases.
func decode[T any](t *testing.T, data []byte, cases func(*T) int) *T {
	t.Helper()
	v := new(T)
	require.NoError(t, json.Unmarshal(data, v))
	if cases(v) == 0 {
		t.Fatal("the file holds no cases")
	}
	return v
}

// decodeCases reads the list named cases.
func decodeCases[T any](t *testing.T, data []byte) []T {
	t.Helper()
	type file struct{ Cases []T }
	return decode(t, data, func(f *file) int { return len(f.Cases) }).Cases
}

func checkBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s = %x, want %x", what, got, want)
	}
}

func checkReason(t *testing.T, what string, got dropReason, accept bool, reason string) {
	t.Helper()
	if (got == dropNone) != accept {
		t.Errorf("%s: %v, want accept = %v (%s)", what, got, accept, reason)
	}
	if !accept && reason != "" && got.String() != reason {
		t.Errorf("%s: refused for %v, want %s", what, got, reason)
	}
}

// parseAddr reads an address in the forms that programs in C accept:
// 1.2.3.4:5, [::1]:5, and the same without port, which is then 0. Host names
// and zones are errors.
func parseAddr(s string) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil && ap.Addr().Zone() == "" {
		return ap, nil
	}
	host := s
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return netip.AddrPort{}, fmt.Errorf("netcode: %q is not an address", s)
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("netcode: %q is not an address", s)
	}
	return netip.AddrPortFrom(addr, 0), nil
}

func testAddresses(t *testing.T, data []byte) {
	type addressCase struct {
		Input     string
		Accept    bool
		Family    string
		Port      uint16
		Canonical string
		Wire      hexBytes
	}
	for _, c := range decodeCases[addressCase](t, data) {
		ap, err := parseAddr(c.Input)
		if (err == nil) != c.Accept {
			t.Errorf("parseAddr(%q) = %v, %v, want accept = %v", c.Input, ap, err, c.Accept)
			continue
		}
		if !c.Accept {
			continue
		}
		text := ap.String()
		if ap.Port() == 0 {
			text = ap.Addr().String()
		}
		if text != c.Canonical || ap.Port() != c.Port || ap.Addr().Is4() != (c.Family == "ipv4") {
			t.Errorf("parseAddr(%q) = %v, want %s %s", c.Input, ap, c.Family, c.Canonical)
		}
		checkBytes(t, c.Input, appendAddr(nil, ap), c.Wire)
		if back, n := consumeAddr(c.Wire); back != ap || n != len(c.Wire) {
			t.Errorf("consumeAddr(%x) = %v, %d, want %v", c.Wire, back, n, ap)
		}
	}
}

type connectTokenCase struct {
	Name              string
	PrivateKey        hexBytes `json:"private_key"`
	ProtocolID        num      `json:"protocol_id"`
	ClientID          num      `json:"client_id"`
	Timeout           int32    `json:"timeout_seconds"`
	Created           num      `json:"create_timestamp"`
	Expires           num      `json:"expire_timestamp"`
	Nonce             hexBytes
	PublicAddresses   []string `json:"public_addresses"`
	InternalAddresses []string `json:"internal_addresses"`
	ClientToServer    hexBytes `json:"client_to_server_key"`
	ServerToClient    hexBytes `json:"server_to_client_key"`
	UserData          hexBytes `json:"user_data"`
	AdditionalData    hexBytes `json:"additional_data"`
	PrivatePlain      hexBytes `json:"private_plain"`
	PrivateEncrypted  hexBytes `json:"private_encrypted"`
	Token             hexBytes
	RequestPacket     hexBytes `json:"request_packet"`
}

func mustAddrs(t *testing.T, texts []string) (addrs []netip.AddrPort) {
	t.Helper()
	for _, s := range texts {
		ap, err := parseAddr(s)
		require.NoError(t, err)
		addrs = append(addrs, ap)
	}
	return addrs
}

func (c *connectTokenCase) make(t *testing.T) (*Token, *privateToken) {
	tok := &Token{
		protocolID: uint64(c.ProtocolID),
		created:    uint64(c.Created),
		expires:    uint64(c.Expires),
		timeout:    c.Timeout,
		nonce:      [tokenNonceSize]byte(c.Nonce),
		servers:    mustAddrs(t, c.PublicAddresses),
		clientKey:  c.ClientToServer.key(),
		serverKey:  c.ServerToClient.key(),
	}
	p := &privateToken{
		clientID:  uint64(c.ClientID),
		timeout:   c.Timeout,
		clientKey: tok.clientKey,
		serverKey: tok.serverKey,
		userData:  [UserDataSize]byte(c.UserData),
	}
	p.numServers = copy(p.servers[:], mustAddrs(t, c.InternalAddresses))
	return tok, p
}

func testConnectTokens(t *testing.T, data []byte) {
	for _, c := range decodeCases[connectTokenCase](t, data) {
		t.Run(c.Name, func(t *testing.T) {
			tok, p := c.make(t)
			var plain [privateTokenSize]byte
			p.put(&plain)
			checkBytes(t, "plain private part", plain[:], c.PrivatePlain)
			d := newPrivateData(version, tok.protocolID, tok.expires)
			checkBytes(t, "associated data", d[:], c.AdditionalData)
			key := c.PrivateKey.key()
			open := *p // sealPrivate wipes it
			tok.sealPrivate(&open, &key)
			checkBytes(t, "sealed private part", tok.private[:], c.PrivateEncrypted)
			b, _ := tok.MarshalBinary()
			checkBytes(t, "token", b, c.Token)

			back, err := parseToken(c.Token)
			require.NoError(t, err)
			b, _ = back.MarshalBinary()
			checkBytes(t, "token read and written", b, c.Token)
			req := make([]byte, requestSize)
			putRequest(req, back)
			checkBytes(t, "request", req, c.RequestPacket)
			c.readBack(t, req, p)
		})
	}
}

// readBack reads the request as the server would.
func (c *connectTokenCase) readBack(t *testing.T, req []byte, want *privateToken) {
	key := c.PrivateKey.key()
	rr := requestReader{keys: ringOf(&key), protocolID: uint64(c.ProtocolID)}
	var r request
	if reason := rr.read(bytes.Clone(req), uint64(c.Expires)-1, &r); reason != dropNone {
		t.Fatalf("request refused: %v", reason)
	}
	if r.token != *want || r.expires != uint64(c.Expires) {
		t.Errorf("request read = %+v, want %+v", r.token, *want)
	}
	checkBytes(t, "token id", r.id[:], c.PrivateEncrypted[privateTokenSize-tagSize:])
}

func testTokenRejects(t *testing.T, data []byte) {
	type tokenCase struct {
		Name        string
		Accept      bool
		Reason      string
		Token       hexBytes
		VersionInfo hexBytes `json:"version_info"`
		PrivateKey  hexBytes `json:"private_key"`
		ProtocolID  num      `json:"protocol_id"`
		Expires     num      `json:"expire_timestamp"`
		Nonce       hexBytes
		Plain       hexBytes
		Encrypted   hexBytes
		Timeout     int32 `json:"timeout_seconds"`
		ClientID    num   `json:"client_id"`
		NumServers  int   `json:"num_addresses"`
	}
	type file struct {
		Public   []tokenCase `json:"public_token_reads"`
		Private  []tokenCase `json:"private_token_reads"`
		Decrypts []tokenCase `json:"private_token_decrypts"`
	}
	f := decode(t, data, func(f *file) int { return len(f.Public) * len(f.Private) * len(f.Decrypts) })
	for _, c := range f.Public {
		reason := dropNone
		if _, err := parseToken(c.Token); err != nil {
			for r, text := range tokenProblems {
				if text == err.(*TokenError).Reason {
					reason = r
				}
			}
		}
		checkReason(t, "public/"+c.Name, reason, c.Accept, c.Reason)
	}
	opens := func(c tokenCase, ver string) []byte {
		key := c.PrivateKey.key()
		d := newPrivateData(ver, uint64(c.ProtocolID), uint64(c.Expires))
		b := bytes.Clone(c.Encrypted)
		if !openPrivate(newAEADX(&key), c.Nonce, d[:], b) {
			return nil
		}
		return b
	}
	for _, c := range f.Private {
		plain := opens(c, version)
		if plain == nil {
			t.Fatalf("private/%s does not open", c.Name)
		}
		n := privateTokenSize - tagSize
		checkBytes(t, "private/"+c.Name, plain[:n], c.Plain[:n])
		var p privateToken
		reason := p.parse(c.Plain)
		checkReason(t, "private/"+c.Name, reason, c.Accept, c.Reason)
		if c.Accept && (p.clientID != uint64(c.ClientID) || p.timeout != c.Timeout || p.numServers != c.NumServers) {
			t.Errorf("private/%s = %+v, want %+v", c.Name, p, c)
		}
	}
	for _, c := range f.Decrypts {
		if got := opens(c, string(c.VersionInfo)) != nil; got != c.Accept {
			t.Errorf("decrypts/%s: opens = %v, want %v", c.Name, got, c.Accept)
		}
	}
}

func testChallengeTokens(t *testing.T, data []byte) {
	type challengeCase struct {
		Name      string
		Accept    bool
		Key       hexBytes
		Sequence  num
		ClientID  num      `json:"client_id"`
		UserData  hexBytes `json:"user_data"`
		Plain     hexBytes
		Encrypted hexBytes
	}
	for _, c := range decodeCases[challengeCase](t, data) {
		key := c.Key.key()
		cc := newChallengeCipher(&key)
		tok := challengeToken{clientID: uint64(c.ClientID), userData: [UserDataSize]byte(c.UserData)}
		b := make([]byte, challengeTokenSize)
		tok.put(b)
		checkBytes(t, c.Name+": plain", b, c.Plain)
		if c.Accept {
			cc.seal(b, uint64(c.Sequence), &tok)
			checkBytes(t, c.Name+": sealed", b, c.Encrypted)
		}
		var back challengeToken
		ok := cc.open(bytes.Clone(c.Encrypted), uint64(c.Sequence), &back)
		if ok != c.Accept || ok && back != tok {
			t.Errorf("%s: open = %+v, %v, want %+v, %v", c.Name, back, ok, tok, c.Accept)
		}
	}
}

func testPackets(t *testing.T, data []byte) {
	type packetCase struct {
		Name           string
		TypeID         packetType `json:"type_id"`
		Type           string
		Key            hexBytes
		ProtocolID     num `json:"protocol_id"`
		Sequence       num
		Plain          hexBytes
		SequenceBytes  int `json:"sequence_bytes"`
		Prefix         hexBytes
		AdditionalData hexBytes `json:"additional_data"`
		Nonce          hexBytes
		Packet         hexBytes
	}
	for _, c := range decodeCases[packetCase](t, data) {
		key := c.Key.key()
		pc := newPacketCipher(&key, uint64(c.ProtocolID))
		var out wire.Batch
		out.Append([]byte("before"))
		pc.seal(&out, c.TypeID, uint64(c.Sequence), c.Plain)
		checkBytes(t, c.Name, out.At(1), c.Packet)
		checkBytes(t, c.Name+": associated data", pc.data[:], c.AdditionalData)
		checkBytes(t, c.Name+": nonce", pc.nonce[:], c.Nonce)
		if c.TypeID.String() != c.Type || sequenceSize(uint64(c.Sequence)) != c.SequenceBytes || c.Packet[0] != c.Prefix[0] {
			t.Errorf("%s: type %v with %d sequence bytes, want %s and %d",
				c.Name, c.TypeID, sequenceSize(uint64(c.Sequence)), c.Type, c.SequenceBytes)
		}
		w := newReplayWindow(referenceWindow)
		p, reason := pc.open(bytes.Clone(c.Packet), clientTakes|serverTakes, &w)
		if reason != dropNone || p.typ != c.TypeID || p.seq != uint64(c.Sequence) || !bytes.Equal(p.body, c.Plain) {
			t.Errorf("%s: open = %+v, %v", c.Name, p, reason)
		}
	}
}

func testPacketReads(t *testing.T, data []byte) {
	type readCase struct {
		Name              string
		Role              string
		Accept            bool
		Reason            string
		ProtocolID        num `json:"protocol_id"`
		Key               hexBytes
		PrivateKey        hexBytes `json:"private_key"`
		Now               num
		AlreadyReceived   []num `json:"already_received"`
		Type              string
		Sequence          *num
		Payload           hexBytes
		ChallengeSequence num  `json:"challenge_token_sequence"`
		ClientIndex       *int `json:"client_index"`
		MaxClients        int  `json:"max_clients"`
		MostRecentAfter   num  `json:"most_recent_after"`
		Packet            hexBytes
	}
	for _, c := range decodeCases[readCase](t, data) {
		w := newReplayWindow(referenceWindow)
		for _, s := range c.AlreadyReceived {
			w.mark(uint64(s))
		}
		b := bytes.Clone(c.Packet)
		if c.Role == "server" && len(b) > 0 && b[0] == 0 {
			rr := requestReader{protocolID: uint64(c.ProtocolID)}
			if len(c.PrivateKey) > 0 {
				key := c.PrivateKey.key()
				rr.keys = ringOf(&key)
			}
			var r request
			checkReason(t, c.Name, rr.read(b, uint64(c.Now), &r), c.Accept, c.Reason)
			continue
		}
		var pc *packetCipher
		if len(c.Key) > 0 {
			key := c.Key.key()
			v := newPacketCipher(&key, uint64(c.ProtocolID))
			pc = &v
		}
		takes := serverTakes
		if c.Role == "client" {
			takes = clientTakes
		}
		p, reason := pc.open(b, takes, &w)
		checkReason(t, c.Name, reason, c.Accept, c.Reason)
		if w.newest != uint64(c.MostRecentAfter) {
			t.Errorf("%s: newest = %d, want %d", c.Name, w.newest, c.MostRecentAfter)
		}
		if !c.Accept {
			continue
		}
		if p.typ.String() != c.Type || c.Sequence == nil || p.seq != uint64(*c.Sequence) {
			t.Errorf("%s: packet = %v, want type %s, sequence %v", c.Name, p, c.Type, c.Sequence)
		}
		switch p.typ {
		case packetPayload:
			checkBytes(t, c.Name, p.body, c.Payload)
		case packetChallenge, packetResponse:
			if s := binary.LittleEndian.Uint64(p.body); s != uint64(c.ChallengeSequence) {
				t.Errorf("%s: challenge sequence = %d, want %d", c.Name, s, c.ChallengeSequence)
			}
		case packetKeepAlive:
			index, clients := readKeepAlive(p.body)
			if c.ClientIndex != nil && (int(index) != *c.ClientIndex || int(clients) != c.MaxClients) {
				t.Errorf("%s: keep alive = %d, %d, want %d, %d", c.Name, index, clients, *c.ClientIndex, c.MaxClients)
			}
		}
	}
}

func testReplay(t *testing.T, data []byte) {
	type replayCase struct {
		Name string
		Ops  []json.RawMessage
	}
	type file struct {
		Window int
		Cases  []replayCase
	}
	f := decode(t, data, func(f *file) int { return len(f.Cases) })
	for _, c := range f.Cases {
		w := newReplayWindow(f.Window)
		for i, op := range c.Ops {
			var seq, newest num
			var accept bool
			if err := json.Unmarshal(op, &[]any{&seq, &accept, &newest}); err != nil {
				t.Fatal(err)
			}
			got := w.check(uint64(seq))
			if got {
				w.mark(uint64(seq))
			}
			if got != accept || w.newest != uint64(newest) {
				t.Fatalf("%s: op %d: check(%d) = %v with newest %d, want %v with %d", c.Name, i, seq, got, w.newest, accept, newest)
			}
		}
	}
}
