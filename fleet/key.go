package fleet

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"time"

	"volley/internal/handover"
)

// A key is what nodes derive from the fleet's key.
type key struct {
	secret []byte // a pseudorandom key for HKDF
	prefix string // of subjects, and the name of the cluster
}

func loadKey(name string) (*key, error) {
	signer, err := handover.LoadKey(name)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	k := new(key)
	if k.secret, err = hkdf.Extract(sha256.New, der, []byte("volley fleet 1")); err != nil {
		return nil, err
	}
	k.prefix = "volley-" + hex.EncodeToString(k.derive("prefix", 8))
	return k, nil
}

// derive returns a key for a use.
func (k *key) derive(use string, size int) []byte {
	b, err := hkdf.Expand(sha256.New, k.secret, use, size)
	if err != nil {
		panic(err) // the size is wrong
	}
	return b
}

// password returns the password of an account in the nodes' own servers of NATS.
func (k *key) password(account string) string {
	return hex.EncodeToString(k.derive("account "+account, 32))
}

// tlsConfig returns the settings between servers of NATS, for both ends: each shows that it
// has the fleet's key.
func (k *key) tlsConfig() (*tls.Config, error) {
	private := ed25519.NewKeyFromSeed(k.derive("tls", ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "volley fleet"},
		DNSNames:     []string{serverName},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280, 4.1.2.5: no end
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// All nodes make the same certificate, and trust it alone.
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private, Leaf: cert}},
		ServerName:   serverName,
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

const serverName = "fleet.volley.invalid"
