package secure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const (
	keyBlock   = "PRIVATE KEY" // the PEM type of PKCS #8
	maxKeyFile = 64 << 10      // bytes of a key file
)

// A keyFileError is the error of a key file that must not or cannot be used.
type keyFileError struct {
	name string
	err  error
}

func (e *keyFileError) Error() string { return "secure: key file " + e.name + ": " + e.err.Error() }
func (e *keyFileError) Unwrap() error { return e.err }

// loadKey returns the private key in a file. If there is no such file, it makes
// one with a new key of curve P-256.
func loadKey(name string) (crypto.Signer, error) {
	text, err := readKeyFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKeyFile(name); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &keyFileError{name, fmt.Errorf("it is not there and cannot be made: %w", unnamed(err))}
		}
		text, err = readKeyFile(name) // perhaps that of another process
	}
	if err != nil {
		return nil, &keyFileError{name, unnamed(err)}
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, &keyFileError{name, err}
	}
	return key, nil
}

// unnamed returns an error of package os without the file's name.
func unnamed(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// readKeyFile reads a file that nobody but its owner can read.
func readKeyFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening some of these would wait
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	// Windows keeps rights in lists of its own, and its modes say nothing.
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("others may use it, because its mode is %04o; set the mode 0600, as with chmod 600", mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(text) > maxKeyFile {
		return nil, fmt.Errorf("it is longer than %d bytes", maxKeyFile)
	}
	return text, err
}

// parseKey reads a private key in PEM and PKCS #8.
func parseKey(text []byte) (crypto.Signer, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("it has no key in PEM form")
	case block.Type == "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("the key is encrypted with a password, which a server cannot type")
	case block.Type != keyBlock:
		return nil, fmt.Errorf("it begins with %q, and must begin with %q; openssl pkcs8 -topk8 -nocrypt turns a key into this form", block.Type, keyBlock)
	}
	if next, _ := pem.Decode(rest); next != nil {
		return nil, errors.New("there is more in it than one key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be read: %w", err)
	}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return key, nil
		}
	case ed25519.PrivateKey:
		return key, nil
	}
	return nil, errors.New("the key must be of P-256 or Ed25519")
}

// makeKeyFile writes a new key to a file, which is there as a whole or not at
// all. If another process was faster, the error is fs.ErrExist.
func makeKeyFile(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".volley-key-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: keyBlock, Bytes: der})
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := place(f.Name(), name); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(name)); err == nil { // a server that loses its key locks its clients out
		dir.Sync() // which not every system can
		dir.Close()
	}
	return nil
}

// place gives a file its name, and never replaces another. A link is made by
// one process only. Where there are no links, a rename comes close to that.
func place(from, name string) error {
	err := os.Link(from, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(name); err == nil {
		return fs.ErrExist
	}
	return os.Rename(from, name)
}

// selfSigned returns a certificate for a key that clients know by its pin. So it
// has no name and no date that anybody looks at.
func selfSigned(key crypto.Signer) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "volley"},
		DNSNames:     []string{"volley"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280, 4.1.2.5: no end
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
