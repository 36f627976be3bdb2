package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"volley/netcode"
)

const testKey = "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"

// newToken are flags that make a token.
var newToken = []string{"token", "new", "--key", testKey, "--protocol", "7", "--server", "203.0.113.5:7777", "--id", "42"}

// line returns what stands behind a name in the output.
func (o outcome) line(name string) string {
	m := regexp.MustCompile(`(?m)^` + name + `  +(.*)$`).FindStringSubmatch(o.stdout)
	if m == nil {
		return ""
	}
	return m[1]
}

func (o outcome) wantLines(t *testing.T, want map[string]string) {
	t.Helper()
	for name, pattern := range want {
		if got := o.line(name); !regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(got) {
			t.Errorf("%s = %q, want %s; output:\n%s%s", name, got, pattern, o.stdout, o.stderr)
		}
	}
}

func TestTokenKey(t *testing.T) {
	a, b := command(t.Context(), devNull(t), "token", "key"), command(t.Context(), devNull(t), "token", "key")
	if !regexp.MustCompile(`^[0-9a-f]{64}\n$`).MatchString(a.stdout) || a.status != exitOK || a.stdout == b.stdout {
		t.Errorf("two keys: %+v, %+v", a, b)
	}
	name := filepath.Join(t.TempDir(), "key")
	if o := command(t.Context(), devNull(t), "token", "key", "--out", name); o.status != exitOK || o.stdout+o.stderr != "" {
		t.Errorf("with --out: %+v", o)
	}
	before, err := os.ReadFile(name)
	if _, e := netcode.ParseKey(strings.TrimSpace(string(before))); err != nil || e != nil {
		t.Errorf("the file: %v, %v", err, e)
	}
	if o := command(t.Context(), devNull(t), "token", "key", "--out", name); o.status != exitFailure || !strings.Contains(o.stderr, "exists") {
		t.Errorf("an existing file: %+v", o)
	}
	if after, _ := os.ReadFile(name); string(after) != string(before) {
		t.Error("the key was overwritten")
	}
}

// TestTokenNewAndShow makes tokens in both forms and reads them back.
func TestTokenNewAndShow(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := with(newToken, "--server", "[2001:db8::1]:8", "--internal", "10.0.0.1:7,10.0.0.2:8",
		"--user-data", "team \"red\"", "--expires", "45s", "--timeout", "5s")
	for _, form := range [][]string{nil, {"--binary"}} {
		made := command(t.Context(), devNull(t), with(flags, form...)...)
		if made.status != exitOK {
			t.Fatal(made.stderr)
		}
		if n := len(made.stdout); n != 2733 && n != 2048 {
			t.Errorf("%d bytes of output", n)
		}
		public := map[string]string{
			"protocol id": "7",
			"issued":      `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+s ago`,
			"expires":     `.* UTC, in \d+s \(lifetime 45s\)`,
			"timeout":     "5s",
			"servers":     "203.0.113.5:7777",
			" ":           `\[2001:db8::1\]:8`,
		}
		o := command(t.Context(), file(t, made.stdout), "token", "show")
		o.wantLines(t, public)
		o.wantLines(t, map[string]string{"client id": "", "user data": "", "internal": ""})
		name := file(t, made.stdout).Name()
		o = command(t.Context(), devNull(t), "token", "show", "--key", "@"+key, name)
		o.wantLines(t, public)
		o.wantLines(t, map[string]string{"client id": `42 \(0x2a\)`, "user data": `"team \\"red\\""`, "internal": "10.0.0.1:7"})
	}
}

// TestTokenFile: what --out writes is what would have been printed, for the
// owner only.
func TestTokenFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	if o := command(t.Context(), devNull(t), with(newToken, "--out", name, "--expires", "-1s", "--timeout", "-1s")...); o.status != exitOK || o.stdout != "" {
		t.Fatalf("%+v", o)
	}
	info, err := os.Stat(name)
	if err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	o := command(t.Context(), devNull(t), "token", "show", "--key", testKey, name)
	o.wantLines(t, map[string]string{"expires": "never", "timeout": "none", "user data": "none"})
}

// TestTokenExpired: an expired token is shown, and said to be expired.
func TestTokenExpired(t *testing.T) {
	key, _ := netcode.ParseKey(testKey)
	addrs, _ := readAddrs("", []string{"1.2.3.4:5"})
	is := netcode.Issuer{PrivateKey: key, Servers: addrs}
	tok, err := is.Issue(1, []byte{0xff, 1})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := showToken(&b, tok, testKey, tok.Info().Expires.Add(3*time.Second)); err != nil {
		t.Fatal(err)
	}
	outcome{stdout: b.String()}.wantLines(t, map[string]string{
		"expires": `.*, 3s ago: servers refuse it \(lifetime 30s\)`, "issued": ".*, 33s ago", "user data": "ff01", "client id": "1"})
}

// TestTokenSecrets: nothing of the key or of the session's keys is printed by
// show, with or without the private key.
func TestTokenSecrets(t *testing.T) {
	made := command(t.Context(), devNull(t), with(newToken, "--binary")...)
	// The keys of the session stand behind the server's address.
	const clientKey = 13 + 8 + 8 + 8 + 24 + 1024 + 4 + 4 + 7
	hexOf := func(from int) string { return formatUserData([]byte("\xff" + made.stdout[from:from+32]))[2:] }
	secrets := []string{testKey, hexOf(clientKey), hexOf(clientKey + 32)}
	for _, flags := range [][]string{{"token", "show"}, {"token", "show", "--key", testKey}} {
		o := command(t.Context(), file(t, made.stdout), flags...)
		if o.status != exitOK || slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(o.stdout+o.stderr, s) }) {
			t.Errorf("%v: %+v", flags, o)
		}
	}
}

// TestTokenWrongKey: the public part is shown all the same.
func TestTokenWrongKey(t *testing.T) {
	made := command(t.Context(), devNull(t), newToken...)
	o := command(t.Context(), file(t, made.stdout), "token", "show", "-", "--key", strings.Repeat("ab", 32))
	if o.status != exitFailure || !strings.Contains(o.stderr, "another key") {
		t.Errorf("status %d, %q", o.status, o.stderr)
	}
	o.wantLines(t, map[string]string{"protocol id": "7", "client id": ""})
}

func TestTokenErrors(t *testing.T) {
	made := command(t.Context(), devNull(t), newToken...).stdout
	binary := command(t.Context(), devNull(t), with(newToken, "--binary")...).stdout
	for _, test := range []struct {
		args, stdin, want string
	}{
		{"token what", "", "unknown command"},
		{"token new", "", `"key", "server", "id" not set`},
		{"token new --key 12 --server 1.2.3.4:5 --id 1", "", "2 characters, not a key of 64"},
		{"token new --key @/does/not/exist --server 1.2.3.4:5 --id 1", "", "/does/not/exist"},
		{"token new --key " + strings.Repeat("0", 64) + " --server 1.2.3.4:5 --id 1", "", "volley token key"},
		{"token new --key " + testKey + " --server game.example:5 --id 1", "", "names have to be looked up"},
		{"token new --key " + testKey + " --server 1.2.3.4 --id 1", "", "1.2.3.4:PORT"},
		{"token new --key " + testKey + " --server ::1 --id 1", "", "[::1]:PORT"},
		{"token new --key " + testKey + " --server fe80::1%eth0 --id 1", "", "is not an address"},
		{"token new --key " + testKey + " --server 1.2.3.4:5 --id -1", "", "must be a whole number from 0 to 18446744073709551615"},
		{"token new --key " + testKey + strings.Repeat(" --server 1.2.3.4:5", 33) + " --id 1", "", "1 to 32 times, not 33"},
		{"token new --key " + testKey + " --server 1.2.3.4:5 --internal 1.2.3.4:5,1.2.3.4:6 --id 1", "", "1 times, not 2"},
		{"token new --key " + testKey + " --server 1.2.3.4:5 --id 1 --expires 0", "", "--expires"},
		{"token new --key " + testKey + " --server 1.2.3.4:5 --id 1 --user-data " + strings.Repeat("x", 257), "", "256 bytes, not 257"},
		{"token show", "", "no token in the input"},
		{"token show /does/not/exist", "", "/does/not/exist"},
		{"token show", made[:1000], "the input has 1000 bytes, but a token has 2048, or 2732 in base64"},
		{"token show", binary[:2000], "the input has 2000 bytes"},
		{"token show", "NETCODE 1.01\x00" + binary[13:], "another protocol version"},
		{"token show", strings.Repeat("not base64! ", 2000), "base64"},
		{"token show --key 1", made, "--key"},
	} {
		o := command(t.Context(), file(t, test.stdin), strings.Fields(test.args)...)
		if o.status != exitFailure || !strings.Contains(o.stderr, test.want) || o.stdout != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q, want status %d and %q",
				test.args, o.status, o.stdout, o.stderr, exitFailure, test.want)
		}
	}
}
