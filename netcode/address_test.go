package netcode

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// mapped returns an IPv4 address in IPv6 form.
func mapped(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(ap.Addr().As16()), ap.Port())
}

// TestMappedAddresses: an IPv4 address in IPv6 form goes into a token as IPv4,
// in both parts: programs in C take the other form for another address.
func TestMappedAddresses(t *testing.T) {
	outer, inner := netip.MustParseAddrPort("192.0.2.1:7"), netip.MustParseAddrPort("10.0.0.2:8")
	is := testIssuer()
	is.Servers = []netip.AddrPort{mapped(outer)}
	given := is.Servers[0]
	tok, err := is.Issue(1, nil)
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{outer}, tok.servers)
	b, err := tok.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, byte(familyIPv4), b[tokenServers+4], "family in the public part")
	claims, err := tok.Claims(testKey)
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{outer}, claims.Servers)
	require.Equal(t, given, is.Servers[0], "the caller's list has been changed")

	is.InternalServers = []netip.AddrPort{mapped(inner)}
	tok, err = is.Issue(1, nil)
	require.NoError(t, err)
	claims, err = tok.Claims(testKey)
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{inner}, claims.Servers)

	own, err := ownAddresses([]netip.AddrPort{mapped(inner)}, nil)
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{inner}, own)
}

// TestServerAddresses: what cannot be a server is refused in a configuration.
func TestServerAddresses(t *testing.T) {
	for addr, why := range map[string]string{
		"192.0.2.1:0":                "no port",
		"0.0.0.0:7":                  "unspecified",
		"[::]:7":                     "unspecified",
		"[::ffff:0.0.0.0]:7":         "unspecified",
		"224.0.0.1:7":                "multicast",
		"[ff02::1]:7":                "multicast",
		"[::ffff:239.1.2.3]:7":       "multicast",
		"255.255.255.255:7":          "broadcast",
		"[::ffff:255.255.255.255]:7": "broadcast",
		"[fe80::1%eth0]:7":           "zone",
	} {
		list := []netip.AddrPort{netip.MustParseAddrPort(addr)}
		for field, err := range map[string]error{
			"Issuer.Servers":         issueError(func(is *Issuer) { is.Servers = list }),
			"Issuer.InternalServers": issueError(func(is *Issuer) { is.InternalServers = list }),
			"ListenConfig.Addresses": listenError(t, func(lc *ListenConfig) { lc.Addresses = list }),
		} {
			var ce *ConfigError
			require.ErrorAs(t, err, &ce, "%s as %s", addr, field)
			require.Equal(t, field, ce.Field)
			require.Contains(t, ce.Reason, why)
		}
	}
}

// TestServersTwice: a list in which a server could not tell its place is
// refused; that clients know two servers by one address is not.
func TestServersTwice(t *testing.T) {
	a, b := netip.MustParseAddrPort("192.0.2.1:7"), netip.MustParseAddrPort("192.0.2.2:7")
	for field, change := range map[string]func(*Issuer){
		"Issuer.Servers":         func(is *Issuer) { is.Servers = []netip.AddrPort{a, b, mapped(a)} },
		"Issuer.InternalServers": func(is *Issuer) { is.Servers, is.InternalServers = []netip.AddrPort{a, b}, []netip.AddrPort{b, b} },
	} {
		var ce *ConfigError
		require.ErrorAs(t, issueError(change), &ce)
		require.Equal(t, field, ce.Field)
	}
	require.NoError(t, issueError(func(is *Issuer) { is.Servers, is.InternalServers = []netip.AddrPort{a, a}, []netip.AddrPort{a, b} }))
}

func TestLongDurations(t *testing.T) {
	for _, d := range []time.Duration{longest + 1, math.MaxInt64 - time.Second, math.MaxInt64} {
		for field, err := range map[string]error{
			"Issuer.Lifetime":            issueError(func(is *Issuer) { is.Lifetime = d }),
			"Issuer.Timeout":             issueError(func(is *Issuer) { is.Timeout = d }),
			"ListenConfig.TokenLifetime": listenError(t, func(lc *ListenConfig) { lc.TokenLifetime = d }),
			"Config.KeepAlive":           listenError(t, func(lc *ListenConfig) { lc.Config = &Config{KeepAlive: d} }),
		} {
			var ce *ConfigError
			require.ErrorAs(t, err, &ce, "%v as %s", d, field)
			require.Equal(t, field, ce.Field)
		}
	}
	is := testIssuer()
	is.Lifetime, is.Timeout = longest, longest
	tok, err := is.Issue(1, nil)
	require.NoError(t, err)
	require.Equal(t, time.Duration(longest), tok.Info().Timeout)
	require.Equal(t, time.Duration(longest), tok.lifetime())
}

func issueError(change func(*Issuer)) error {
	is := testIssuer()
	change(is)
	_, err := is.Issue(1, nil)
	return err
}

// listenError returns the error of listening, on a simulated network.
func listenError(t *testing.T, change func(*ListenConfig)) error {
	t.Helper()
	n := simnet.New(1)
	defer n.Close()
	pc, err := n.Listen(simServer)
	require.NoError(t, err)
	lc := ListenConfig{PrivateKey: testKey}
	change(&lc)
	l, err := lc.ListenOn(pc)
	if err != nil {
		pc.Close()
		return err
	}
	l.Close()
	return nil
}
