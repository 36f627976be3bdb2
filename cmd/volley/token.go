package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"volley/netcode"
)

const tokenLong = `Token makes and shows the connect tokens of secure sessions (volley/netcode),
and makes the private key that a backend shares with its servers.

A token is a secret: it opens the session that it permits. The key makes and opens
all tokens. With --out both go to files that only you can read.`

const tokenExample = `  volley token key --out game.key
  volley token new --key @game.key --protocol 7 --server 203.0.113.5:7777 --id 42 --out 42.token
  volley token show 42.token
  volley token show --key @game.key 42.token`

func newTokenCommand(stdin *os.File) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token",
		Short:   "Make and show connect tokens",
		Long:    tokenLong,
		Example: tokenExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenKeyCommand(), newTokenNewCommand(), newTokenShowCommand(stdin))
	return cmd
}

func newTokenKeyCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make a private key for a backend and its servers",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := netcode.GenerateKey().MarshalText()
			if err != nil {
				return err
			}
			return writeSecret(cmd.OutOrStdout(), out, append(text, '\n'))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to make for the key (default standard output)")
	return cmd
}

// writeSecret writes b to stdout, or to a new file for its owner only. It overwrites nothing.
func writeSecret(stdout io.Writer, name string, b []byte) error {
	if name == "" {
		_, err := stdout.Write(b)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("--out: %s exists; choose another name or remove it", name)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

const keyUsage = "private key: 64 hexadecimal digits, or better @FILE, as other users can see the arguments of programs"

func readKey(s string) (netcode.Key, error) {
	name, isFile := strings.CutPrefix(s, "@")
	if isFile {
		b, err := os.ReadFile(name)
		if err != nil {
			return netcode.Key{}, fmt.Errorf("--key: %w", err)
		}
		s = string(bytes.TrimSpace(b))
	}
	key, err := netcode.ParseKey(s)
	switch {
	case err == nil && key == (netcode.Key{}):
		return key, errors.New(`--key: a key of zeros counts as none; make one with "volley token key"`)
	case err == nil:
		return key, nil
	case isFile:
		return key, fmt.Errorf("--key: %s holds %s, not a key of 64 hexadecimal digits", name, plural(len(s), "byte", "bytes"))
	}
	return key, fmt.Errorf("--key: %s, not a key of 64 hexadecimal digits; a file needs an @ in front of its name",
		plural(len(s), "character", "characters"))
}
