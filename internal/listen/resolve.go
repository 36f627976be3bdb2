package listen

import (
	"context"
	"net"
	"net/netip"
	"strconv"
)

// Resolve returns the UDP address that a string names, of the family of a
// socket with the local address given. IPv4 addresses are never in their
// IPv6-mapped form. Errors are those of the resolver.
func Resolve(ctx context.Context, local net.Addr, address string) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(address); err == nil {
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return netip.AddrPort{}, err
	}
	family := "ip"
	if udp, ok := local.(*net.UDPAddr); ok && udp.IP.To4() != nil {
		family = "ip4"
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
