package fleet

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/nats-io/nats.go"

	"volley/secure"
)

// A Config says how a node joins its fleet.
type Config struct {
	// Name is that of the node, 1 to 64 bytes. No other node of the fleet has it.
	Name string
	// KeyFile has the private key of the fleet, as that of [secure.ListenConfig]: all nodes
	// have a copy of one file.
	KeyFile string

	// Cluster is the TCP address at which the server of NATS in this process hears those of
	// other nodes. Empty: a port of 127.0.0.1 that the system chooses.
	Cluster string
	// Routes are the Cluster addresses of other nodes, host and port. Some of them are enough,
	// because nodes tell each other of more. The node's own may be there.
	Routes []string

	// URL is that of an existing cluster of NATS, in place of Cluster and Routes.
	URL string
	// App and Control are the options of two connections to URL, with credentials of two
	// accounts. App is for [Node.NATS], and Control for what nodes tell each other.
	App, Control []nats.Option

	// State returns what [secure.Conn.Resumed] says of a session at the node to which it goes,
	// at most 64 bytes. It is called when a node asks for a token for the client, and so up to
	// 75 s before the client goes, if the node dies. It must not block. Nil: nothing is said.
	State func(c *secure.Conn) []byte
	// Logger gets what operators want to know; nil: nothing.
	Logger *slog.Logger
}

// A ConfigError is the error of [Join] or [Node.Listen] for a wrong option.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return "fleet: Config." + e.Field + ": " + e.Reason }

func wrong(field, format string, args ...any) error {
	return &ConfigError{field, fmt.Sprintf(format, args...)}
}

const maxName = 64 // bytes

// check returns what is wrong with a configuration.
func (c *Config) check() error {
	switch {
	case c.Name == "" || len(c.Name) > maxName:
		return wrong("Name", "it has %d bytes, and must have 1 to %d", len(c.Name), maxName)
	case c.KeyFile == "":
		return wrong("KeyFile", "it is empty; all nodes need the fleet's key")
	case c.URL != "" && (c.Cluster != "" || len(c.Routes) > 0):
		return wrong("URL", "there is Cluster or Routes, too; use an existing cluster, or servers in the nodes")
	case c.URL != "" && len(c.App) == 0:
		return wrong("App", "it is empty; give the credentials of the application's account")
	case c.URL != "" && len(c.Control) == 0:
		return wrong("Control", "it is empty; give the credentials of an account for the nodes alone")
	case c.URL == "" && (len(c.App) > 0 || len(c.Control) > 0):
		return wrong("App", "there are credentials, and no URL of a cluster")
	}
	if _, _, err := c.cluster(); err != nil {
		return wrong("Cluster", "%v", err)
	}
	for _, r := range c.Routes {
		if _, _, err := hostPort(r); err != nil {
			return wrong("Routes", "%v", err)
		}
	}
	return nil
}

// cluster returns where the server of NATS hears others.
func (c *Config) cluster() (host string, port int, err error) {
	if c.Cluster == "" {
		return "127.0.0.1", 0, nil
	}
	return hostPort(c.Cluster)
}

func hostPort(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q has no port", address)
	}
	return host, int(n), nil
}
