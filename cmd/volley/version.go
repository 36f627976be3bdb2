package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), version(debug.ReadBuildInfo()))
		},
	}
}

// version describes a build: module version, revision if known, and toolchain.
func version(info *debug.BuildInfo, ok bool) string {
	v, revision, dirty := "(devel)", "", ""
	if ok {
		if info.Main.Version != "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = " " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+dirty"
			}
		}
	}
	return fmt.Sprintf("volley %s%s%s %s %s/%s", v, revision, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
