package secure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoadKeyMakesOne(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "server.key")
	first, err := loadKey(name)
	require.NoError(t, err)
	again, err := loadKey(name)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, elliptic.P256(), first.(*ecdsa.PrivateKey).Curve)

	info, err := os.Stat(name)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), info.Mode())
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "something was left beside the key file")
}

// Servers that start at once, as on a shared volume, have the same key.
func TestLoadKeyAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "server.key")
	keys := make([]crypto.Signer, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() { keys[i], _ = loadKey(name) })
	}
	wg.Wait()
	for _, k := range keys {
		require.NotNil(t, k)
		require.Equal(t, keys[0], k)
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		return encode(keyBlock, der)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(p256)
	require.NoError(t, err)
	good := pkcs8(p256)

	for want, text := range map[string]string{
		"it has no key in PEM form":                              "",
		"it begins with \"EC PRIVATE KEY\", and must begin with": encode("EC PRIVATE KEY", sec1),
		"the key is encrypted with a password":                   encode("ENCRYPTED PRIVATE KEY", sec1),
		"the key cannot be read":                                 encode(keyBlock, sec1),
		"the key must be of P-256 or Ed25519":                    pkcs8(p384),
		"there is more in it than one key":                       good + good,
		"it is longer than 65536 bytes":                          good + strings.Repeat("\n", maxKeyFile),
	} {
		name := filepath.Join(t.TempDir(), "server.key")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := loadKey(name)
		require.ErrorAs(t, err, new(*keyFileError))
		require.ErrorContains(t, err, "secure: key file "+name+": "+want)
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, text, string(after), "a file that is there was changed")
	}
	_, err = parseKey([]byte(pkcs8(rsaKey)))
	require.ErrorContains(t, err, "the key must be of P-256 or Ed25519")
	_, err = parseKey([]byte(good[:len(good)/2]))
	require.ErrorContains(t, err, "it has no key in PEM form")
}

func TestLoadKeyTakesEd25519(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "server.key")
	require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), 0o400))
	have, err := loadKey(name)
	require.NoError(t, err)
	require.Equal(t, key, have)
}

func TestLoadKeyWantsNarrowMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing here")
	}
	name := filepath.Join(t.TempDir(), "server.key")
	_, err := loadKey(name)
	require.NoError(t, err)
	for _, mode := range []fs.FileMode{0o644, 0o640, 0o604, 0o620, 0o601} {
		require.NoError(t, os.Chmod(name, mode))
		_, err = loadKey(name)
		require.ErrorAs(t, err, new(*keyFileError))
		require.ErrorContains(t, err, "others may use it, because its mode is 0")
		require.ErrorContains(t, err, "set the mode 0600, as with chmod 600")
	}
	require.NoError(t, os.Chmod(name, 0o400))
	_, err = loadKey(name)
	require.NoError(t, err)
}

func TestLoadKeySaysWhatTheSystemSays(t *testing.T) {
	dir := t.TempDir()
	_, err := loadKey(dir)
	require.ErrorContains(t, err, "it is not a regular file")
	_, err = loadKey(filepath.Join(dir, "missing", "server.key"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "it is not there and cannot be made")
	require.NotContains(t, err.Error(), ".volley-key", "an error names a file that the user does not know")
	t.Chdir(dir)
	_, err = loadKey("")
	require.Error(t, err)
}

// Where a file system has no links, place still replaces nothing.
func TestPlaceReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	from, name := filepath.Join(dir, "from"), filepath.Join(dir, "name")
	require.NoError(t, os.WriteFile(from, []byte("new"), 0o600))
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	require.ErrorIs(t, place(from, name), fs.ErrExist)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
}

func TestSelfSigned(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := loadKey(filepath.Join(t.TempDir(), "server.key"))
	require.NoError(t, err)
	for _, key := range []crypto.Signer{ed, ec} {
		first, err := selfSigned(key)
		require.NoError(t, err)
		second, err := selfSigned(key)
		require.NoError(t, err)
		require.Equal(t, pinOf(first.Leaf), pinOf(second.Leaf), "the pin is that of the key alone")
		require.Equal(t, 9999, first.Leaf.NotAfter.Year())
		require.True(t, first.Leaf.NotBefore.Before(time.Unix(1, 0)))
		require.NoError(t, first.Leaf.CheckSignature(first.Leaf.SignatureAlgorithm, first.Leaf.RawTBSCertificate, first.Leaf.Signature))
	}
}
