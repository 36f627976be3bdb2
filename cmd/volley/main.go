// Command volley shows what message connections over UDP do on a bad network.
//
//	volley serve          echoes messages, and is the other end of the following
//	volley ping ADDRESS   measures round-trip time, jitter and loss
//	volley check ADDRESS  finds out what stands between this machine and a server
//	volley proxy          puts a bad link between two programs that speak UDP
//	volley bench ADDRESS  measures throughput and loss
//	volley demo           runs a server and a ping over a bad link
//	volley decode         shows what is in datagrams
//	volley capture FILE   turns what was captured of connections into pcapng
//	volley replay FILE    replays what was captured of connections
//	volley top            shows the worst connections of a process
//	volley token          makes and shows connect tokens of secure sessions
//	volley version        prints the version
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK       = 0
	exitNegative = 1 // nobody has answered; something is wrong
	exitFailure  = 2 // wrong usage, or the command could not be carried out
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, stdin *os.File, stdout, stderr io.Writer) int {
	cmd := newRootCommand(stdin)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errNoAnswer), errors.Is(err, errNothingArrived), errors.Is(err, errCheck), errors.Is(err, errDiverges):
		fmt.Fprintln(stderr, "volley:", harmless(err.Error()))
		return exitNegative
	default:
		fmt.Fprintln(stderr, "volley:", harmless(err.Error()))
		return exitFailure
	}
}

func newRootCommand(stdin *os.File) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "volley",
		Short:         "Message connections over UDP",
		Long:          "volley measures message connections over UDP, shows what they do on a bad\nnetwork, and makes what secure sessions need.",
		Version:       version(debug.ReadBuildInfo()),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), "FlagUsages", "FlagUsagesWrapped 80"))
	cmd.AddCommand(newPingCommand(), newBenchCommand(), newServeCommand(), newCheckCommand(), newProxyCommand(stdin), newDemoCommand(), newDecodeCommand(stdin), newCaptureCommand(stdin), newReplayCommand(), newTokenCommand(stdin), newTopCommand(), newVersionCommand())
	return cmd
}

// noArgs refuses arguments. Unlike cobra.NoArgs it does not take them for commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
}
