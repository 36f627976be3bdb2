package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"volley/fleet/internal/hook"
)

// An engine is what carries messages: a server of NATS in this process, or none, and two
// connections.
type engine struct {
	server  *natsserver.Server // nil: there is a cluster elsewhere
	app     *nats.Conn
	control *nats.Conn
}

const (
	accountApp     = "app"
	accountControl = "control"

	startTime = 10 * time.Second
)

// startServer starts a server of NATS.
func startServer(c *Config, k *key, id instance) (*natsserver.Server, error) {
	host, port, err := c.cluster()
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "0.0.0.0"
	}
	if port == 0 {
		port = natsserver.RANDOM_PORT
	}
	config, err := k.tlsConfig()
	if err != nil {
		return nil, err
	}
	app, control := natsserver.NewAccount(accountApp), natsserver.NewAccount(accountControl)
	opts := &natsserver.Options{
		ServerName: fmt.Sprintf("%s-%x", c.Name, id[:4]),
		// Without a listener for clients there is no cluster. The node's own ones do not need it.
		Host:     "127.0.0.1",
		Port:     natsserver.RANDOM_PORT,
		NoSigs:   true,
		NoLog:    true,
		Accounts: []*natsserver.Account{app, control},
		Users: []*natsserver.User{
			{Username: accountApp, Password: k.password(accountApp), Account: app},
			{Username: accountControl, Password: k.password(accountControl), Account: control},
		},
		MaxPayload:   1 << 20,
		PingInterval: 10 * time.Second,
		Cluster: natsserver.ClusterOpts{
			Name:       k.prefix,
			Host:       host,
			Port:       port,
			Username:   "route",
			Password:   k.password("route"),
			TLSConfig:  config,
			TLSTimeout: 2,
			// The news of nodes does not wait behind the messages of the application.
			PoolSize:       1,
			PinnedAccounts: []string{accountControl},
			PingInterval:   routePing,
			MaxPingsOut:    2,
			Compression:    natsserver.CompressionOpts{Mode: natsserver.CompressionOff},
			WriteDeadline:  2 * time.Second,
			Advertise:      hook.Advertise,
			ConnectRetries: 120, // to nodes that are not in Routes
		},
		ConnectErrorReports:   reports,
		ReconnectErrorReports: reports,
	}
	for _, r := range c.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: r, User: url.UserPassword("route", k.password("route"))})
	}
	s, err := natsserver.NewServer(opts)
	if err != nil {
		return nil, err
	}
	if c.Logger != nil {
		s.SetLoggerV2(engineLog{c.Logger}, false, false, false)
	}
	s.Start()
	if !s.ReadyForConnections(startTime) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("fleet: the server of NATS does not start at %s; is the port in use?", net.JoinHostPort(host, fmt.Sprint(max(port, 0))))
	}
	return s, nil
}

// routePing is how often servers of NATS look whether others are there. A route is closed after
// three times that, and made anew.
const routePing = time.Second

// reports is how many failed attempts to make a route come between two lines of the log.
const reports = 3600

// start connects.
func (n *Node) start(ctx context.Context) (err error) {
	e := &n.engine
	c := &n.cfg
	app, control := c.App, c.Control
	at := c.URL
	if at == "" {
		if e.server, err = startServer(c, n.key, n.id); err != nil {
			return err
		}
		app = []nats.Option{nats.InProcessServer(e.server), nats.UserInfo(accountApp, n.key.password(accountApp))}
		control = []nats.Option{nats.InProcessServer(e.server), nats.UserInfo(accountControl, n.key.password(accountControl))}
	}
	common := []nats.Option{
		nats.Name("volley fleet " + c.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			n.log(slog.LevelWarn, "an error of NATS", "error", err)
		}),
	}
	connect := func(own []nats.Option, more ...nats.Option) (*nats.Conn, error) {
		var options []nats.Option
		options = append(options, common...)
		options = append(options, more...)
		options = append(options, own...)
		if deadline, ok := ctx.Deadline(); ok {
			options = append(options, nats.Timeout(max(time.Until(deadline), time.Millisecond)))
		}
		return nats.Connect(at, options...)
	}
	if e.app, err = connect(app); err != nil {
		return fmt.Errorf("fleet: the application's connection to NATS: %w", err)
	}
	e.control, err = connect(control,
		nats.ReconnectBufSize(-1), // what is old is of no use
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				n.log(slog.LevelError, "NATS is gone; sessions live on, and clients that come have no spare for another node", "error", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { n.log(slog.LevelInfo, "NATS is back") }),
	)
	if err != nil {
		return fmt.Errorf("fleet: the nodes' connection to NATS: %w", err)
	}
	return e.apart(n.key.prefix)
}

// apart checks that the application cannot hear what nodes tell each other.
func (e *engine) apart(prefix string) error {
	subject := prefix + ".probe." + nats.NewInbox()
	sub, err := e.app.SubscribeSync(subject)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	err = errors.Join(e.app.FlushTimeout(startTime), e.control.Publish(subject, nil), e.control.FlushTimeout(startTime), e.app.FlushTimeout(startTime))
	if err != nil {
		return fmt.Errorf("fleet: the connection to NATS: %w", err)
	}
	if _, err := sub.NextMsg(50 * time.Millisecond); err == nil {
		return wrong("Control", "the application's credentials reach the subjects of the nodes; give those of another account")
	}
	return nil
}

// stop ends the connections and the server.
func (e *engine) stop() {
	if e.control != nil {
		e.control.FlushTimeout(time.Second)
		e.control.Close()
	}
	if e.app != nil {
		e.app.FlushTimeout(time.Second)
		e.app.Close()
	}
	if e.server != nil {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
}

// engineLog passes on the errors of a server of NATS.
type engineLog struct{ *slog.Logger }

func (l engineLog) Noticef(string, ...any) {}
func (l engineLog) Debugf(string, ...any)  {}
func (l engineLog) Tracef(string, ...any)  {}

func (l engineLog) Warnf(format string, args ...any) {
	if !strings.HasPrefix(format, "Plaintext passwords") { // which are in this process only
		l.Warn("fleet: NATS: " + fmt.Sprintf(format, args...))
	}
}
func (l engineLog) Errorf(format string, args ...any) {
	level := slog.LevelError
	if strings.HasPrefix(format, "Error trying to connect to route") { // several times for a node that is not there
		level = slog.LevelDebug
	}
	l.Log(context.Background(), level, "fleet: NATS: "+fmt.Sprintf(format, args...))
}
func (l engineLog) Fatalf(format string, args ...any) {
	l.Error("fleet: NATS: " + fmt.Sprintf(format, args...))
}
