package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"volley/netcode"
)

const tokenShowLong = `Show prints what is in a connect token, text or binary. Without a file, or with
"-", it reads standard input.

With the private key it also opens the private part, as a server does. So it tells
whether the token was made with that key. It never shows the session's keys.`

func newTokenShowCommand(stdin *os.File) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show what is in a connect token",
		Long:  tokenShowLong,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := readToken(stdin, args)
			if err != nil {
				return err
			}
			return showToken(cmd.OutOrStdout(), t, key, time.Now())
		},
	}
	cmd.Flags().StringVar(&key, "key", "", keyUsage)
	return cmd
}

// maxTokenText is more than any form of a token takes, line breaks included.
const maxTokenText = 8 << 10

// readToken reads the token that the arguments name.
func readToken(stdin *os.File, args []string) (*netcode.Token, error) {
	in := stdin
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxTokenText))
	if err != nil {
		return nil, err
	}
	return parseToken(b)
}

// parseToken reads both forms. They cannot be confused: the binary one holds zeros.
func parseToken(b []byte) (*netcode.Token, error) {
	t := new(netcode.Token)
	if bytes.IndexByte(b, 0) >= 0 {
		return t, explainToken(t.UnmarshalBinary(b), len(b))
	}
	text := bytes.TrimSpace(b)
	if len(text) == 0 {
		return nil, errors.New("there is no token in the input; name a file, or pipe in what the backend sent")
	}
	return t, explainToken(t.UnmarshalText(text), len(text))
}

// explainToken adds what may be wrong with input of n bytes.
func explainToken(err error, n int) error {
	var te *netcode.TokenError
	if err == nil || errors.As(err, &te) && !strings.Contains(te.Reason, "bytes") {
		return err
	}
	return fmt.Errorf("%w; the input has %d bytes, but a token has 2048, or 2732 in base64", err, n)
}

// showToken prints the public part and, with a key, the private part.
func showToken(w io.Writer, t *netcode.Token, keyText string, now time.Time) error {
	line := func(name, value string) { fmt.Fprintf(w, "%-12s  %s\n", name, value) }
	if keyText == "" {
		showPublic(line, t.Info(), now)
		return nil
	}
	key, err := readKey(keyText)
	if err != nil {
		return err
	}
	showPublic(line, t.Info(), now)
	claims, err := t.Claims(key)
	if err != nil {
		return fmt.Errorf("%w: it was made with another key, or has been changed since", err)
	}
	showClaims(line, t.Info(), claims)
	return nil
}

func showPublic(line func(name, value string), t netcode.TokenInfo, now time.Time) {
	line("protocol id", formatID(t.ProtocolID))
	line("issued", formatInstant(t.Created, now))
	line("expires", formatExpiry(t, now))
	line("timeout", formatTimeout(t.Timeout))
	showAddrs(line, "servers", t.Servers)
}

// showClaims prints what the private part says beyond the public one.
func showClaims(line func(name, value string), t netcode.TokenInfo, c *netcode.Claims) {
	line("client id", formatID(c.ClientID))
	line("user data", formatUserData(c.UserData[:]))
	if c.Timeout != t.Timeout {
		line("server's", "timeout "+formatTimeout(c.Timeout))
	}
	if !slices.Equal(c.Servers, t.Servers) {
		showAddrs(line, "internal", c.Servers)
	}
}

func showAddrs(line func(name, value string), name string, addrs []netip.AddrPort) {
	for _, a := range addrs {
		line(name, a.String())
		name = ""
	}
}

func formatID(id uint64) string {
	if id < 10 {
		return strconv.FormatUint(id, 10)
	}
	return fmt.Sprintf("%d (%#x)", id, id)
}

func formatInstant(t, now time.Time) string {
	text := t.UTC().Format("2006-01-02 15:04:05 UTC")
	d := now.Sub(t).Truncate(time.Second)
	switch {
	case d.Abs() > 365*24*time.Hour:
		return text
	case d < 0:
		return fmt.Sprintf("%s, in %v", text, -d)
	}
	return fmt.Sprintf("%s, %v ago", text, d)
}

func formatExpiry(t netcode.TokenInfo, now time.Time) string {
	end := t.Expires
	if end.IsZero() {
		return "never"
	}
	text := formatInstant(end, now)
	if !now.Before(end) {
		text += ": servers refuse it"
	}
	return fmt.Sprintf("%s (lifetime %v)", text, end.Sub(t.Created))
}

func formatTimeout(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

// formatUserData formats user data without final zeros, quoted if it is text, else in hex.
func formatUserData(b []byte) string {
	b = bytes.TrimRight(b, "\x00")
	switch {
	case len(b) == 0:
		return "none"
	case utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }):
		return strconv.Quote(string(b))
	}
	return hex.EncodeToString(b)
}
