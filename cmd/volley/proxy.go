package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"volley/simnet"
)

// proxyOptions are the flags of the proxy.
type proxyOptions struct {
	listen, to string
	preset     string
	both       []string // settings of both directions, as "loss=5%"
	up, down   string
	script     string
	seed       number
	maxClients int
	interval   time.Duration
	duration   time.Duration
	presets    bool
	json       bool
}

const proxyLong = `Proxy forwards UDP datagrams from clients to --to, and the answers back, over a
simulated bad link. Use its address in place of your server's; client and server
may be any programs. The server sees each client at a port of its own.

Settings apply to each direction: --latency 25ms makes round trips 50 ms longer.
--up and --down change one direction, from and to the clients:

  --rate 20Mbit/s --up "rate 2Mbit/s loss 1%"

Lines on standard input change settings while it runs: at once, at a time since
the start, or in a while from now; for good, or for some time:

  loss 20%                        up latency 80ms jitter 10ms
  at 30s blackout for 2s          in 5s down rate 500kbit/s for 10s
  preset 3g                       reset

"rebind" gives each client a new port towards the server, like a NAT that has
forgotten the client. "show" prints the settings, "stats" the counters, "quit" ends.
--script has such lines, separated by semicolons.

The settings are latency, jitter, distribution (uniform, normal, long-tail),
loss, burst (as in "2%/8": 2 % lost, 8 in a row on average), duplicate, reorder,
reorder-by, corrupt, rate, queue, mtu, ordered and blackout. Loss without burst
ends bursts. "volley proxy --presets" lists the presets and their sources.`

const proxyExample = `  volley proxy --listen 127.0.0.1:4000 --to 127.0.0.1:7777 --loss 5% --latency 25ms
  volley proxy --to game.example:7777 --preset 4g --script "10s blackout for 3s; 20s preset 3g"
  echo "at 10s loss 20%" | volley proxy --to 127.0.0.1:7777 --duration 1m --json`

func newProxyCommand(stdin *os.File) *cobra.Command {
	var o proxyOptions
	cmd := &cobra.Command{
		Use:     "proxy --to HOST:PORT",
		Short:   "Put a bad link between two programs that speak UDP",
		Long:    proxyLong,
		Example: proxyExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.presets {
				printPresets(cmd.OutOrStdout())
				return nil
			}
			return runProxy(cmd.Context(), &o, stdin, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.seed, o.interval = 1, time.Second
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.to, "to", "", "HOST:PORT of the server")
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "address for clients; port 0 is a free one, which is printed")
	o.registerLink(cmd)
	f.IntVar(&o.maxClients, "max-clients", 256, "largest number of clients; a new one takes the place of the one that was silent longest")
	f.Var((*span)(&o.duration), "duration", "how long to run; 0: until Ctrl-C")
	f.Lookup("duration").DefValue = ""
	f.Var((*span)(&o.interval), "interval", "time between two lines of counters; 0: none")
	f.BoolVar(&o.presets, "presets", false, "list the presets and end")
	f.BoolVar(&o.json, "json", false, "print lines of JSON")
	return cmd
}

// registerLink adds the flags of the link.
func (o *proxyOptions) registerLink(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.preset, "preset", "", "begin with a common network: "+strings.Join(presetNames(), ", "))
	for _, s := range []struct{ name, kind, usage string }{
		{"latency", "duration", "delay of each direction, such as 25ms"},
		{"jitter", "duration", "how far the delay varies, see --distribution"},
		{"distribution", "name", "how delays vary: uniform, normal or long-tail (default uniform)"},
		{"loss", "percent", "share of datagrams lost"},
		{"burst", "percent/count", "losses in a row: 2%/8 loses 2 %, 8 in a row on average"},
		{"duplicate", "percent", "share of datagrams that arrive twice"},
		{"reorder", "percent", "share of datagrams held back, to be overtaken"},
		{"reorder-by", "duration", "how long --reorder holds them back (default 10ms)"},
		{"corrupt", "percent", "share of datagrams with a flipped bit"},
		{"rate", "rate", "bits a second that pass, such as 20Mbit/s; a datagram counts 28 bytes for headers"},
		{"queue", "size", "bytes that may wait for a link with a rate; more are dropped (default 64KiB)"},
		{"mtu", "size", "largest packet that passes, with headers, such as 1280"},
		{"ordered", "true|false", "whether datagrams keep their order in spite of jitter"},
	} {
		f.Var(&settingFlag{name: s.name, kind: s.kind, list: &o.both}, s.name, s.usage)
	}
	f.StringVar(&o.up, "up", "", "settings from the clients to the server alone")
	f.StringVar(&o.down, "down", "", "settings from the server to the clients alone")
	f.StringVar(&o.script, "script", "", "changes over time, see above")
	f.Var(&o.seed, "seed", "random seed: the same one loses the same datagrams")
}

// A settingFlag is a flag that is a setting of a link.
type settingFlag struct {
	name, kind string
	value      string
	list       *[]string
}

func (s *settingFlag) String() string { return s.value }
func (s *settingFlag) Type() string   { return s.kind }

func (s *settingFlag) Set(value string) error {
	text := s.name + "=" + strings.TrimSpace(value)
	if _, err := parseSettings(text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), s.name+": "))
	}
	s.value = value
	*s.list = append(*s.list, text)
	return nil
}

// parseSettings parses "loss 5% rate 2Mbit/s". Loss without burst replaces bursts.
func parseSettings(text string) (func(*simnet.Link), error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n=,;", r) })
	if err := needUnits(words); err != nil {
		return nil, err
	}
	script, err := simnet.ParseScript("0s " + text)
	switch {
	case err != nil:
		return nil, errors.Unwrap(err) // without the settings themselves
	case len(script) != 1 || script[0].For != 0:
		return nil, fmt.Errorf("%q is not a list of settings", text)
	}
	set := script[0].Set
	if slices.Contains(words, "loss") && !slices.Contains(words, "burst") {
		return func(l *simnet.Link) { set(l); l.Burst = nil }, nil
	}
	return set, nil
}

func (o *proxyOptions) links() (up, down simnet.Link, err error) {
	if o.preset != "" {
		p, err := lookupPreset(o.preset)
		if err != nil {
			return up, down, fmt.Errorf("--preset: %w", err)
		}
		up, down = p.Up, p.Down
	}
	for _, s := range []struct {
		flag, text string
		links      []*simnet.Link
	}{
		{"", strings.Join(o.both, " "), []*simnet.Link{&up, &down}},
		{"--up: ", o.up, []*simnet.Link{&up}},
		{"--down: ", o.down, []*simnet.Link{&down}},
	} {
		if strings.TrimSpace(s.text) == "" {
			continue
		}
		set, err := parseSettings(s.text)
		if err != nil {
			return up, down, fmt.Errorf("%s%w", s.flag, err)
		}
		for _, l := range s.links {
			set(l)
		}
	}
	return up, down, nil
}

// scriptLines returns the changes that are known beforehand.
func (o *proxyOptions) scriptLines() ([]controlLine, error) {
	var lines []controlLine
	for _, line := range strings.FieldsFunc(o.script, func(r rune) bool { return r == ';' || r == '\n' }) {
		l, err := parseControl(line)
		if err != nil {
			return nil, fmt.Errorf("--script: %q: %w", strings.TrimSpace(line), err)
		}
		if l.verb != verbNone {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// check reports the first value out of range.
func (o *proxyOptions) check() error {
	switch {
	case o.to == "":
		return errors.New("--to is missing: the server, such as --to 127.0.0.1:7777")
	case checkAddress(o.to) != nil:
		return fmt.Errorf("--to: %w", checkAddress(o.to))
	case o.duration < 0 || o.interval < 0:
		return errors.New("--duration and --interval must not be negative")
	case o.interval > 0 && o.interval < 10*time.Millisecond:
		return fmt.Errorf("--interval must be 0 or at least 10ms, not %v", o.interval)
	case o.maxClients < 1:
		return fmt.Errorf("--max-clients must be at least 1, not %d", o.maxClients)
	}
	return nil
}

func presetNames() []string {
	var names []string
	for _, p := range simnet.Presets() {
		names = append(names, p.Name)
	}
	return names
}

func lookupPreset(name string) (simnet.Preset, error) {
	presets := simnet.Presets()
	i := slices.IndexFunc(presets, func(p simnet.Preset) bool { return p.Name == name })
	if i < 0 {
		return simnet.Preset{}, fmt.Errorf("there is no preset %q, only %s", name, strings.Join(presetNames(), ", "))
	}
	return presets[i], nil
}
