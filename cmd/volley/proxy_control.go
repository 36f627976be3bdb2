package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"volley/simnet"
)

// A verb is what a line of control asks for.
type verb string

const (
	verbNone   verb = "" // an empty line
	verbSet    verb = "settings"
	verbReset  verb = "reset"
	verbPreset verb = "preset"
	verbRebind verb = "rebind"
	verbShow   verb = "show"
	verbStats  verb = "stats"
	verbHelp   verb = "help"
	verbQuit   verb = "quit"
)

// A controlLine is a line by which the proxy is controlled.
type controlLine struct {
	text     string        // without time, direction and duration
	at       time.Duration // when
	relative bool          // at counts from now, not from the start
	up, down bool          // the directions it is for
	lasts    time.Duration // 0: for good
	verb     verb
	set      func(*simnet.Link) // of verbSet
	preset   simnet.Preset      // of verbPreset
}

const controlHelp = `[at TIME | in TIME] [up | down] CHANGE [for TIME]
  changes: latency 50ms, jitter 5ms, distribution normal, loss 5%, burst 2%/8,
           duplicate 1%, reorder 1%, reorder-by 10ms, corrupt 1%, rate 2Mbit/s,
           queue 64KiB, mtu 1280, ordered on, blackout on, several of them,
           preset NAME, reset
rebind     new ports towards the server, as after a NAT has forgotten its clients
show       what holds now
stats      the counters
quit       the end`

func parseControl(line string) (controlLine, error) {
	line, _, _ = strings.Cut(line, "#")
	l := controlLine{relative: true, up: true, down: true}
	words := strings.Fields(line)
	words, err := l.parseTime(words)
	if err != nil {
		return l, err
	}
	timed := !l.relative || l.at > 0
	if n := len(words); n >= 2 && words[n-2] == "for" {
		if l.lasts, err = time.ParseDuration(words[n-1]); err != nil || l.lasts <= 0 {
			return l, fmt.Errorf("for: %q is not a duration, such as 2s", words[n-1])
		}
		words = words[:n-2]
	}
	directed := false
	if len(words) > 0 {
		directed = true
		switch words[0] {
		case "up":
			l.down, words = false, words[1:]
		case "down":
			l.up, words = false, words[1:]
		case "both":
			words = words[1:]
		default:
			directed = false
		}
	}
	if len(words) == 0 {
		if timed || directed || l.lasts > 0 {
			return l, errors.New(`there is nothing to change; "help" lists the settings`)
		}
		return l, nil
	}
	return l, l.parseChange(words, directed)
}

// parseTime takes the time off the front of a line.
func (l *controlLine) parseTime(words []string) ([]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	keyword := words[0] == "at" || words[0] == "in"
	rest := words
	if keyword {
		rest = words[1:]
	}
	if len(rest) == 0 {
		return nil, fmt.Errorf("%s: a time is missing, such as 10s", words[0])
	}
	at, err := time.ParseDuration(rest[0])
	if err != nil || at < 0 {
		if keyword {
			return nil, fmt.Errorf("%s: %q is not a time, such as 10s", words[0], rest[0])
		}
		return words, nil
	}
	l.at, l.relative = at, words[0] == "in"
	return rest[1:], nil
}

func (l *controlLine) parseChange(words []string, directed bool) (err error) {
	l.text = strings.Join(words, " ")
	switch v := verb(words[0]); v {
	case verbPreset:
		l.verb = v
		if len(words) != 2 {
			return errors.New("preset: one of " + strings.Join(presetNames(), ", "))
		}
		l.preset, err = lookupPreset(words[1])
		return err
	case verbReset:
		l.verb = v
	case verbRebind, verbShow, verbStats, verbHelp, verbQuit:
		l.verb = v
		if directed || l.lasts > 0 {
			return fmt.Errorf("%s has no direction and no duration", v)
		}
	default:
		l.verb = verbSet
		l.set, err = parseSettings(l.text)
		if err != nil && strings.HasPrefix(err.Error(), "unknown setting") {
			err = fmt.Errorf(`%w; "help" lists them`, err)
		}
		return err
	}
	if len(words) > 1 {
		return fmt.Errorf("%s takes nothing more, but got %q", l.verb, words[1])
	}
	return nil
}

// steps returns the change of each direction, nil for none. The links are those of reset.
func (l *controlLine) steps(resetUp, resetDown simnet.Link) (up, down func(*simnet.Link)) {
	become := func(to simnet.Link) func(*simnet.Link) { return func(l *simnet.Link) { *l = to } }
	switch l.verb {
	case verbSet:
		up, down = l.set, l.set
	case verbReset:
		up, down = become(resetUp), become(resetDown)
	case verbPreset:
		up, down = become(l.preset.Up), become(l.preset.Down)
	}
	if !l.up {
		up = nil
	}
	if !l.down {
		down = nil
	}
	return up, down
}

func (l *controlLine) where() string {
	switch {
	case !l.down:
		return "up "
	case !l.up:
		return "down "
	}
	return ""
}

// A controlled is what lines control: a simnet.Proxy.
type controlled interface {
	Play(up, down []simnet.Step)
	Links() (up, down simnet.Link)
	Rebind() error
}

// A control makes the changes that lines ask for.
type control struct {
	proxy    controlled
	up, down simnet.Link // to begin with, and after reset
	start    time.Time
	after    func(time.Duration, func()) // calls a function after a while
	quit     func()
	report   controlReport
}

// A controlReport is told what becomes of lines. Its methods may be called concurrently.
type controlReport interface {
	changed(text string, up, down simnet.Link)
	failed(text string, err error)
	show(up, down simnet.Link)
	stats()
	help()
}

func (c *control) do(text string) {
	l, err := parseControl(text)
	if err != nil {
		c.report.failed(strings.TrimSpace(text), err)
		return
	}
	c.run(l)
}

// run does what a line says, now or later.
func (c *control) run(l controlLine) {
	wait := l.at
	if !l.relative {
		wait = max(0, l.at-time.Since(c.start))
	}
	switch l.verb {
	case verbSet, verbReset, verbPreset:
		c.change(l, wait)
	case verbNone:
	default:
		if wait == 0 {
			c.other(l)
		} else {
			c.after(wait, func() { c.other(l) })
		}
	}
}

// change schedules a change of links, and tells when it begins and ends.
func (c *control) change(l controlLine, wait time.Duration) {
	var up, down []simnet.Step
	setUp, setDown := l.steps(c.up, c.down)
	if setUp != nil {
		up = []simnet.Step{{At: wait, For: l.lasts, Set: setUp}}
	}
	if setDown != nil {
		down = []simnet.Step{{At: wait, For: l.lasts, Set: setDown}}
	}
	c.proxy.Play(up, down)
	tell := func(text string) func() {
		return func() {
			u, d := c.proxy.Links()
			c.report.changed(text, u, d)
		}
	}
	begun := l.where() + l.text
	if l.lasts > 0 {
		c.after(wait+l.lasts, tell("end of "+begun))
		begun = fmt.Sprintf("%s for %v", begun, l.lasts)
	}
	if wait == 0 {
		tell(begun)()
	} else {
		c.after(wait, tell(begun))
	}
}

// other does what is no change of links.
func (c *control) other(l controlLine) {
	switch l.verb {
	case verbRebind:
		if err := c.proxy.Rebind(); err != nil {
			c.report.failed(l.text, err)
			return
		}
		up, down := c.proxy.Links()
		c.report.changed("rebind", up, down)
	case verbShow:
		c.report.show(c.proxy.Links())
	case verbStats:
		c.report.stats()
	case verbHelp:
		c.report.help()
	case verbQuit:
		c.quit()
	}
}
