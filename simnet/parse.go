package simnet

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseLink parses a description of a link, such as
//
//	latency=20ms jitter=5ms loss=2% bandwidth=10Mbit queue=64KiB
//
// It is a list of settings, separated by spaces or commas, named like the
// fields of Link, each with its value after an equals sign or a space:
//
//	latency=20ms jitter=5ms reorder-by=10ms
//	distribution=normal   or uniform, long-tail
//	loss=2% duplicate=0.5% reorder=1% corrupt=0.001
//	burst=2%/8            as Bursts(0.02, 8)
//	bandwidth=10Mbit      bit/s with the units bit, kbit, Mbit, Gbit, which may
//	                      end in /s; rate is another name; 0 is no limit
//	queue=64KiB mtu=1500  bytes, or with the units B, kB, KiB, MB, MiB
//	ordered blackout      or with true, false
//
// The empty string is the perfect link.
func ParseLink(s string) (Link, error) {
	var l Link
	set, err := parseSettings(fields(s))
	if err != nil {
		return Link{}, fmt.Errorf("simnet: link %q: %w", s, err)
	}
	set(&l)
	return l, nil
}

// ParseScript parses a script, such as
//
//	3s loss=40% for 2s; 10s blackout for 500ms; 12s latency=80ms
//
// Each step is a time, counted from the call of Play, with or without "at"
// before it, the settings that ParseLink knows, and optionally "for" and a
// duration. Steps are separated by semicolons or line breaks; empty ones are
// skipped.
func ParseScript(s string) ([]Step, error) {
	var script []Step
	for text := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ';' || r == '\n' }) {
		f := fields(text)
		if len(f) == 0 {
			continue
		}
		step, err := parseStep(f)
		if err != nil {
			return nil, fmt.Errorf("simnet: step %q: %w", strings.TrimSpace(text), err)
		}
		script = append(script, step)
	}
	return script, nil
}

// fields splits text at spaces and commas.
func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == ',' })
}

func parseStep(f []string) (s Step, err error) {
	if f[0] == "at" && len(f) > 1 {
		f = f[1:]
	}
	if s.At, err = parseDuration(f[0]); err != nil {
		return s, fmt.Errorf("time: %w", err)
	}
	f = f[1:]
	if n := len(f); n >= 2 && f[n-2] == "for" {
		if s.For, err = parseDuration(f[n-1]); err != nil {
			return s, fmt.Errorf("for: %w", err)
		}
		if s.For == 0 {
			return s, errors.New("for: must be longer than 0")
		}
		f = f[:n-2]
	}
	if len(f) == 0 {
		return s, errors.New("no setting")
	}
	s.Set, err = parseSettings(f)
	return s, err
}

// parseSettings returns a function that makes all the given settings.
func parseSettings(words []string) (func(*Link), error) {
	var sets []func(*Link)
	for len(words) > 0 {
		name, value, given := strings.Cut(words[0], "=")
		words = words[1:]
		parse := settings[name]
		if parse == nil {
			return nil, fmt.Errorf("unknown setting %q", name)
		}
		if !given && takesNext(name, words) {
			value, given, words = words[0], true, words[1:]
		}
		if !given && !isSwitch(name) {
			return nil, fmt.Errorf("%s: no value", name)
		}
		set, err := parse(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sets = append(sets, set)
	}
	return func(l *Link) {
		for _, set := range sets {
			set(l)
		}
	}, nil
}

// isSwitch reports whether a setting is one that is on without a value.
func isSwitch(name string) bool { return name == "ordered" || name == "blackout" }

// takesNext reports whether the next word is the value of a setting.
func takesNext(name string, words []string) bool {
	if len(words) == 0 {
		return false
	}
	if isSwitch(name) {
		return slices.Contains(switchWords, words[0])
	}
	first, _, _ := strings.Cut(words[0], "=")
	return settings[first] == nil
}

// settings has the parser of each setting, from a value to a change of a Link.
var settings = map[string]func(string) (func(*Link), error){
	"latency":      setting(parseDuration, func(l *Link, d time.Duration) { l.Latency = d }),
	"jitter":       setting(parseDuration, func(l *Link, d time.Duration) { l.Jitter = d }),
	"distribution": setting(parseDistribution, func(l *Link, d string) { l.Distribution = d }),
	"ordered":      setting(parseBool, func(l *Link, b bool) { l.Ordered = b }),
	"loss":         setting(parseProbability, func(l *Link, p float64) { l.Loss = p }),
	"burst":        setting(parseBurst, func(l *Link, g *GilbertElliott) { l.Burst = g }),
	"duplicate":    setting(parseProbability, func(l *Link, p float64) { l.Duplicate = p }),
	"reorder":      setting(parseProbability, func(l *Link, p float64) { l.Reorder = p }),
	"reorder-by":   setting(parseDuration, func(l *Link, d time.Duration) { l.ReorderBy = d }),
	"corrupt":      setting(parseProbability, func(l *Link, p float64) { l.Corrupt = p }),
	"bandwidth":    setting(parseRate, func(l *Link, r int64) { l.Bandwidth = r }),
	"rate":         setting(parseRate, func(l *Link, r int64) { l.Bandwidth = r }),
	"queue":        setting(parseSize, func(l *Link, n int) { l.QueueBytes = n }),
	"mtu":          setting(parseSize, func(l *Link, n int) { l.MTU = n }),
	"blackout":     setting(parseBool, func(l *Link, b bool) { l.Blackout = b }),
}

func setting[T any](parse func(string) (T, error), set func(*Link, T)) func(string) (func(*Link), error) {
	return func(s string) (func(*Link), error) {
		v, err := parse(s)
		if err != nil {
			return nil, err
		}
		return func(l *Link) { set(l, v) }, nil
	}
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = fmt.Errorf("%v is negative", d)
	}
	return d, err
}

// switchWords are the values of a switch.
var switchWords = []string{"true", "false", "on", "off"}

// parseBool parses a switch; one without a value is on.
func parseBool(s string) (bool, error) {
	switch s {
	case "", "on":
		return true, nil
	case "off":
		return false, nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", s)
	}
	return b, nil
}

func parseDistribution(s string) (string, error) {
	if slices.Contains(distributions[:], s) {
		return s, nil
	}
	return "", fmt.Errorf("%q is none of %s", s, strings.Join(distributions[:], ", "))
}

func parseProbability(s string) (float64, error) {
	num, percent := strings.CutSuffix(s, "%")
	p, err := strconv.ParseFloat(num, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number or percentage", s)
	}
	if percent {
		p /= 100
	}
	if !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("%s is not between 0 and 100%%", s)
	}
	return p, nil
}

func parseBurst(s string) (*GilbertElliott, error) {
	loss, length, _ := strings.Cut(s, "/")
	p, err := parseProbability(loss)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseFloat(length, 64)
	if err != nil || !(n >= 1) || math.IsInf(n, 0) {
		return nil, fmt.Errorf("%q is not a loss and a mean length of bursts, such as 2%%/8", s)
	}
	return Bursts(p, n), nil
}

// A unit is a suffix of numbers. One that ends in another stands before that.
type unit struct {
	suffix string
	factor float64
}

var (
	rateUnits = []unit{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}, {"", 1}}
	sizeUnits = []unit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"kB", 1e3}, {"MB", 1e6}, {"B", 1}, {"", 1}}
)

func parseRate(s string) (int64, error) {
	r, err := parseUnits(strings.TrimSuffix(s, "/s"), rateUnits)
	if err == nil && r != 0 && r < 1 {
		err = fmt.Errorf("%s is less than 1 bit/s", s)
	}
	return int64(r), err
}

func parseSize(s string) (int, error) {
	n, err := parseUnits(s, sizeUnits)
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("%s is out of range", s)
	}
	return int(n), err
}

// parseUnits parses a number with a unit. The result is between 0 and 1e12.
func parseUnits(s string, units []unit) (float64, error) {
	for _, u := range units {
		num, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(num, 64)
		if err != nil {
			break
		}
		if x *= u.factor; !(x >= 0 && x <= 1e12) {
			return 0, fmt.Errorf("%s is out of range", s)
		}
		return x, nil
	}
	return 0, fmt.Errorf("%q is not a number with a unit such as %s", s, units[1].suffix)
}
