package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"volley/simnet"
)

// A bitrate is a flag such as "10Mbit", or "10M" as in iperf3; 0 is no limit.
type bitrate float64

func (b *bitrate) String() string {
	if *b == 0 {
		return "0"
	}
	return strings.TrimSuffix(strings.ReplaceAll(formatRate(float64(*b)), " ", ""), "/s")
}
func (b *bitrate) Type() string { return "rate" }

func (b *bitrate) Set(text string) error {
	if isPlainNumber(text) {
		return fmt.Errorf("%s has no unit: kbit, Mbit or Gbit, as in %[1]sMbit", text)
	}
	s := strings.TrimSuffix(text, "/s")
	for _, unit := range []string{"bps", "bit", "b"} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			s = rest
			break
		}
	}
	link, err := simnet.ParseLink("rate=" + strings.NewReplacer("K", "k", " ", "").Replace(s) + "bit")
	if err != nil {
		return errors.New("must be a rate such as 500kbit, 10Mbit or 1Gbit, or 0 for no limit")
	}
	*b = bitrate(link.Bandwidth)
	return nil
}

// A size is a flag for a number of bytes: "1200", "16KiB" or "16K".
type size int

func (s *size) String() string { return strings.TrimSuffix(formatSize(int(*s)), " bytes") }
func (s *size) Type() string   { return "size" }

func (s *size) Set(text string) error {
	digits := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(text, "iB"), "B"), " ")
	factor := 1
	if n := len(digits); n > 0 {
		switch digits[n-1] {
		case 'k', 'K':
			digits, factor = digits[:n-1], 1<<10
		case 'M':
			digits, factor = digits[:n-1], 1<<20
		}
	}
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	if err != nil || n < 0 || n > 1<<30/factor {
		return errors.New("must be a number of bytes such as 1200 or 16KiB")
	}
	*s = size(n * factor)
	return nil
}

// needUnits refuses rates and shares without a unit, which could mean a fraction or percent.
func needUnits(words []string) error {
	for i, w := range words {
		if i+1 == len(words) {
			break
		}
		value := words[i+1]
		switch w {
		case "rate", "bandwidth":
			if isPlainNumber(value) {
				return fmt.Errorf("%s: %s has no unit: bit/s, kbit/s, Mbit/s or Gbit/s, as in %[2]sMbit/s", w, value)
			}
		case "loss", "duplicate", "reorder", "corrupt", "burst":
			if share, _, _ := strings.Cut(value, "/"); isPlainNumber(share) {
				return fmt.Errorf("%s: %s has no unit: it is a percentage, such as 5%%", w, share)
			}
		}
	}
	return nil
}

// isPlainNumber reports whether s is a number without a unit, other than 0.
func isPlainNumber(s string) bool {
	v, err := strconv.ParseFloat(s, 64)
	return err == nil && v != 0
}

// passing reports whether an error of Read leaves the connection alive: nobody listens yet.
func passing(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// A number is a flag that takes a whole number, with 0x in hexadecimal.
type number uint64

func (n *number) String() string { return strconv.FormatUint(uint64(*n), 10) }
func (n *number) Type() string   { return "uint" }

func (n *number) Set(s string) error {
	x, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return fmt.Errorf("must be a whole number from 0 to %d", uint64(math.MaxUint64))
	}
	*n = number(x)
	return nil
}
