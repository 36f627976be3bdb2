package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// topOptions are the flags of volley top.
type topOptions struct {
	sort     string
	filter   string
	interval span
	count    int
	rows     int
}

const (
	maxTopAnswer  = 64 << 20 // bytes that are read of a process
	maxTopSources = 100      // processes
)

func newTopCommand() *cobra.Command {
	o := topOptions{interval: span(time.Second)}
	cmd := &cobra.Command{
		Use:   "top [URL | HOST[:PORT]]...",
		Short: "Show the worst connections of a process, or of a fleet",
		Long: `Top shows the worst connections of a process, which it reads from the process's
debug page (package volleydebug), and the nodes of a fleet in it. Several addresses
are those of a fleet. Without an address it asks localhost:6060, and without a port
it asks port 6060. On a terminal it updates a list. Elsewhere it prints lines once.`,
		Args: cobra.MaximumNArgs(maxTopSources),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"localhost:6060"}
			}
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.sort, "sort", "s", "loss", "`figure` by which connections are the worst: loss, rtt or queue")
	f.StringVar(&o.filter, "filter", "", "only connections with this `text` in their addresses, protocol or label")
	f.VarP(&o.interval, "interval", "i", "time from one look to the next")
	f.IntVarP(&o.count, "count", "c", 0, "`number` of looks; 0: until Ctrl-C on a terminal, elsewhere one")
	f.IntVarP(&o.rows, "rows", "n", 20, "largest `number` of connections to show; 0: all")
	return cmd
}

func (o *topOptions) run(cmd *cobra.Command, addresses []string) error {
	var all []*topSource
	for _, address := range addresses {
		target, err := topURL(address)
		if err != nil {
			return err
		}
		all = append(all, &topSource{address: address, target: target})
	}
	key, ok := topKeys[o.sort]
	switch {
	case !ok:
		return fmt.Errorf("--sort must be loss, rtt or queue, not %q", o.sort)
	case time.Duration(o.interval) < 100*time.Millisecond:
		return fmt.Errorf("--interval must be at least 100ms, not %v", &o.interval)
	case o.count < 0 || o.rows < 0:
		return errors.New("--count and --rows must not be negative")
	}
	w := cmd.OutOrStdout()
	_, live := liveTerminal(w)
	if o.count == 0 && !live {
		o.count = 1
	}
	return o.loop(cmd.Context(), w, all, key, live)
}

// A topSource is a process that is looked at.
type topSource struct {
	address, target string
	last            *topAnswer // nil: there was none
	err             error      // of the last look
}

// loop takes looks until there have been enough, or the context is over.
func (o *topOptions) loop(ctx context.Context, w io.Writer, all []*topSource, key func(*topConn) float64, live bool) error {
	tick := time.NewTicker(time.Duration(o.interval))
	defer tick.Stop()
	for n := 1; ; n++ {
		var looks sync.WaitGroup
		for _, s := range all {
			looks.Go(func() { o.lookAt(ctx, s) })
		}
		looks.Wait()
		if ctx.Err() != nil {
			return nil
		}
		silent := !slices.ContainsFunc(all, func(s *topSource) bool { return s.err == nil || live && s.last != nil })
		if silent {
			return all[0].err
		}
		if err := o.show(w, all, key, live); err != nil {
			return err
		}
		if n == o.count {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// lookAt takes a look at a process.
func (o *topOptions) lookAt(ctx context.Context, s *topSource) {
	a, err := o.look(ctx, &s.target)
	if s.err = err; err == nil {
		a.since(s.last)
		s.last = a
	}
}

// topURL returns the address of the JSON that a debug page is made of.
func topURL(address string) (string, error) {
	bare := !strings.Contains(address, "://")
	if bare {
		if strings.Trim(address, "0123456789") == "" {
			address = ":" + address
		}
		if strings.HasPrefix(address, ":") {
			address = "localhost" + address
		}
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not a URL or HOST:PORT", address)
	}
	if bare && u.Port() == "" {
		u.Host = strings.TrimSuffix(u.Host, ":") + ":6060"
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/json"), "/") + "/json"
	u.RawQuery, u.Fragment = "", ""
	return u.String(), nil
}

// A topAnswer is what a process tells of its connections.
type topAnswer struct {
	Time    time.Time  `json:"time"`
	Program string     `json:"program"`
	PID     int        `json:"pid"`
	Total   int        `json:"total"`
	Nodes   []topNode  `json:"nodes"`
	Conns   []*topConn `json:"conns"`
}

// A topNode is a member of a fleet.
type topNode struct {
	topPeer
	Came, Left uint64
	Peers      []topPeer
}

// A topPeer is a node as another one sees it.
type topPeer struct {
	Name          string
	Sessions      int
	Load          *float64 // null: it takes no clients
	Drains, Alive bool
	Heard         float64 `json:"heard_ms"`
}

// A topConn is a connection, with those figures that its protocol tells.
type topConn struct {
	ID                                                  uint64
	Protocol, Over, Role, Label, Local, Remote, Explain string
	OK                                                  bool
	RTT                                                 *float64 `json:"rtt_ms"`
	Jitter                                              *float64 `json:"jitter_ms"`
	Loss                                                *float64 `json:"loss"`
	Send                                                *float64 `json:"send_bytes_per_second"`
	Receive                                             *float64 `json:"receive_bytes_per_second"`
	Network                                             *float64 `json:"missed_network"`
	Socket                                              *float64 `json:"missed_socket"`
	Inbox                                               *float64 `json:"missed_inbox"`
	SendQueue                                           *float64 `json:"send_queue_bytes"`
	ReadQueue                                           *float64 `json:"read_queue_bytes"`

	missed float64 // a second, since the look before
}

func known(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func (c *topConn) lost() float64  { return known(c.Network) + known(c.Socket) + known(c.Inbox) }
func (c *topConn) queue() float64 { return known(c.SendQueue) + known(c.ReadQueue) }

// topKeys say by what connections are worse than others.
var topKeys = map[string]func(*topConn) float64{
	"loss":  func(c *topConn) float64 { return known(c.Loss) },
	"rtt":   func(c *topConn) float64 { return known(c.RTT) },
	"queue": (*topConn).queue,
}

// since reckons what has been missed since the look before.
func (a *topAnswer) since(before *topAnswer) {
	if before == nil || !a.Time.After(before.Time) {
		return
	}
	old := make(map[uint64]*topConn, len(before.Conns))
	for _, c := range before.Conns {
		old[c.ID] = c
	}
	for _, c := range a.Conns {
		if b := old[c.ID]; b != nil {
			c.missed = max(0, c.lost()-b.lost()) / a.Time.Sub(before.Time).Seconds()
		}
	}
}

// usualPath is where services have the debug page that have other pages, too.
const usualPath = "/debug/volley/json"

// errNotThere is the error of a look at a path that the process does not know.
var errNotThere = errors.New("404 Not Found")

// look asks a process for its connections, also at the usual path if it has no page at /.
func (o *topOptions) look(ctx context.Context, target *string) (*topAnswer, error) {
	a, err := topLook(ctx, *target)
	if !errors.Is(err, errNotThere) {
		return a, err
	}
	u, parseErr := url.Parse(*target)
	if parseErr == nil && u.Path == "/json" {
		u.Path = usualPath
		if a, err := topLook(ctx, u.String()); err == nil {
			*target = u.String()
			return a, nil
		}
	}
	return nil, fmt.Errorf("%w; at which path does the process serve volleydebug.Handler()? Give the whole URL, such as http://localhost:6060/debug/volley/", err)
}

// topLook asks a process for its connections at a URL.
func topLook(ctx context.Context, target string) (*topAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if _, ok := errors.AsType[*net.OpError](err); ok {
			return nil, fmt.Errorf("%w; does the process serve volleydebug.Handler() there?", err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxTopAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxTopAnswer:
		return nil, fmt.Errorf("%s: more than %d bytes", target, maxTopAnswer)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", target, errNotThere)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s: %s", target, resp.Status, firstLine(b))
	}
	a := new(topAnswer)
	if err := json.Unmarshal(b, a); err != nil || a.Conns == nil || slices.Contains(a.Conns, nil) {
		return nil, fmt.Errorf("%s: this is not the debug page of volley", target)
	}
	return a, nil
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b[:min(len(b), 500)]), "\n")
	return printable(line)
}

// worst returns the connections to be shown, the worst first.
func (o *topOptions) worst(conns []*topConn, key func(*topConn) float64) []*topConn {
	list := slices.DeleteFunc(slices.Clone(conns), func(c *topConn) bool {
		return !strings.Contains(strings.Join([]string{c.Protocol, c.Over, c.Role, c.Label, c.Remote, c.Local}, " "), o.filter)
	})
	slices.SortFunc(list, func(x, y *topConn) int {
		return cmp.Or(cmp.Compare(key(y), key(x)), cmp.Compare(y.missed, x.missed),
			cmp.Compare(known(y.RTT), known(x.RTT)), cmp.Compare(x.ID, y.ID))
	})
	if o.rows > 0 && len(list) > o.rows {
		list = list[:o.rows]
	}
	return list
}
