package listen

import (
	"context"
	"net"
	"net/netip"
	"strconv"
)

// Resolve returns the UDP address of a string, of the family of the local one; without a
// host it is this machine. IPv4 is never mapped. Errors are the resolver's and
// CheckFamily's.
func Resolve(ctx context.Context, local net.Addr, address string) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(address); err == nil {
		ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
		if err := CheckFamily(local, ap); err != nil {
			return netip.AddrPort{}, err
		}
		return ap, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return netip.AddrPort{}, err
	}
	family, this := "ip", netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if udp, ok := local.(*net.UDPAddr); ok && udp.IP.To4() != nil {
		family = "ip4"
	} else if ok && !udp.IP.IsUnspecified() {
		this = netip.IPv6Loopback()
	}
	if host == "" {
		return netip.AddrPortFrom(this, uint16(port)), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, family, host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(ips) == 0 {
		return netip.AddrPort{}, &net.AddrError{Err: "no suitable address", Addr: net.JoinHostPort(host, strconv.Itoa(port))}
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(port)), nil
}

// CheckFamily returns a *net.AddrError if a socket of IPv4 cannot reach an address.
func CheckFamily(local net.Addr, to netip.AddrPort) error {
	if udp, ok := local.(*net.UDPAddr); ok && udp != nil && udp.IP.To4() != nil && !to.Addr().Is4() {
		return &net.AddrError{Err: "not an IPv4 address", Addr: to.Addr().String()}
	}
	return nil
}
