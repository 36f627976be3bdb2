package volley

import (
	"context"
	"net"
	"sync"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/socket"
)

// A Dialer has options for dialing. The zero value dials as [Dial] does.
type Dialer struct {
	// Config is for the connections; nil: the defaults.
	Config *Config
	// NetDialer makes the socket: local address, Control, resolver and so on.
	NetDialer net.Dialer
	// Quiet dials without a greeting, so that the peer learns of the
	// connection with the first message.
	Quiet bool
}

// Dial connects to a UDP address. The network is "udp", "udp4" or "udp6"; the
// address is as for net.Dial. No answer is waited for: UDP has none to give.
// The peer is greeted by an empty packet, so that its Accept returns and it may
// write first. Errors are those of net.Dialer.
func Dial(network, address string) (*Conn, error) {
	var d Dialer
	return d.Dial(context.Background(), network, address)
}

// DialUDP is [Dial] for addresses that are resolved, with the signature of
// net.DialUDP. A nil laddr is chosen by the system.
func DialUDP(network string, laddr, raddr *net.UDPAddr) (*Conn, error) {
	inner, err := net.DialUDP(network, laddr, raddr)
	if err != nil {
		return nil, err
	}
	var d Dialer
	return d.connect(inner)
}

// Dial connects to a UDP address. The context bounds the dialing, for instance the
// resolution of a name. Errors are those of net.Dialer and *[ConfigError].
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	if err := listen.CheckNetwork("dial", network); err != nil {
		return nil, err
	}
	if _, err := d.settings(); err != nil {
		return nil, err
	}
	inner, err := d.NetDialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return d.connect(inner)
}

// settings checks d.Config. All connections with the default one share theirs.
func (d *Dialer) settings() (*settings, error) {
	if d.Config == nil {
		return defaultSettings()
	}
	return dialedSettings(d.Config)
}

var defaultSettings = sync.OnceValues(func() (*settings, error) { return dialedSettings(nil) })

func dialedSettings(cfg *Config) (*settings, error) {
	set, err := newSettings(cfg, datagram.MaxUDP, nil)
	if err == nil {
		set.onClose = dialedConns.Ended
	}
	return set, err
}

// connect makes a Conn of a dialed socket and greets the peer.
func (d *Dialer) connect(inner net.Conn) (*Conn, error) {
	set, err := d.settings()
	if err != nil {
		inner.Close()
		return nil, err
	}
	dc, err := transport(inner, d.Config, set)
	if err != nil {
		inner.Close()
		return nil, err
	}
	c := &Conn{attached: &attached{inner: inner}}
	stop := set.watchDialed(dc)
	if err := c.start(dc, set); err != nil {
		stop()
		dc.Close()
		return nil, err
	}
	dialedConns.Add(c)
	d.greet(c)
	return c, nil
}

// greet greets the peer of a new connection, if that is wanted.
func (d *Dialer) greet(c *Conn) {
	if !d.Quiet && c.set.keepAlive > 0 {
		c.greet()
	}
}

// transport returns the connection of the transport on a connection to one peer.
func transport(inner net.Conn, cfg *Config, set *settings) (datagram.Conn, error) {
	return datagram.Over(inner, datagram.OverConfig{
		Socket:      socketConfig(cfg),
		MaxDatagram: datagram.MaxUDP,
		MaxForeign:  min(set.maxDatagram(), datagram.MaxUDP),
		MaxMessage:  set.maxMessage,
	})
}

func socketConfig(cfg *Config) socket.Config {
	if cfg == nil {
		return socket.Config{}
	}
	return socket.Config{
		ReadBuffer:  cfg.SocketBuffer,
		WriteBuffer: cfg.SocketBuffer,
	}
}

// greet sends an empty packet.
func (c *Conn) greet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.out.Pending()
	c.counts.keepAlivesSent++
	c.queueEmptyLocked(c.now())
	c.out.SendFreshUnlocking(before)
}
