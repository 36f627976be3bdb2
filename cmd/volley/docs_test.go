package main

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// toolsPage returns docs/tools.md, and its sections by their titles.
func toolsPage(t *testing.T) (page string, sections map[string]string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/tools.md")
	require.NoError(t, err)
	sections = make(map[string]string)
	for _, s := range strings.Split(string(b), "\n## ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[title] = text
	}
	return string(b), sections
}

// subcommand returns the command of that name, or nil.
func subcommand(name string) *cobra.Command {
	for _, c := range newRootCommand(nil).Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// TestDocsExamples: each tool is shown by an example with its output, of which
// every command line is understood.
func TestDocsExamples(t *testing.T) {
	page, sections := toolsPage(t)
	for title, text := range sections {
		for name := range strings.SplitSeq(title, " and ") { // some have a section together
			require.NotNil(t, subcommand(name), "a section about no tool: %s", name)
			require.Contains(t, page, "- ["+name+"](#"+strings.ReplaceAll(title, " ", "-")+"): ", "the list at the top")
			if name != "demo" { // which has a picture
				require.Regexp(t, "\n```\n\\$ volley "+name+`( .*)?\n(?:.|\n)*\n`+"```\n", text)
			}
		}
	}
	for _, c := range newRootCommand(nil).Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			require.Contains(t, page, "\n- ["+c.Name()+"](#", "the list at the top")
		}
	}
	require.Contains(t, sections["demo"], "(demo.svg)")
	lines := regexp.MustCompile(`(?m)^\$ volley (\S+)(.*)$`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(lines), 7)
	for _, l := range lines {
		cmd, rest, err := newRootCommand(nil).Find(append([]string{l[1]}, strings.Fields(l[2])...))
		require.NoError(t, err, l[0])
		require.NotEqual(t, "volley", cmd.Name(), l[0])
		require.NoError(t, cmd.ParseFlags(rest), l[0])
	}
}

// TestDocsFlags: what the page calls a flag is one.
func TestDocsFlags(t *testing.T) {
	page, _ := toolsPage(t)
	var known func(c *cobra.Command, name string) bool
	known = func(c *cobra.Command, name string) bool {
		return c.Flags().Lookup(name) != nil || slices.ContainsFunc(c.Commands(), func(c *cobra.Command) bool { return known(c, name) })
	}
	for _, m := range regexp.MustCompile("`(?:[a-z ]+)?--([a-z-]+)").FindAllStringSubmatch(page, -1) {
		require.True(t, m[1] == "help" || known(newRootCommand(nil), m[1]), m[1])
	}
}

// TestDocsOutput: what stays the same in the output from one run to the next is
// in the examples.
func TestDocsOutput(t *testing.T) {
	_, sections := toolsPage(t)
	for title, parts := range map[string][]string{
		"serve": {", volley; Ctrl-C ends it\n", " has connected\n", " has gone after ", "\nserved 1 connection in "},
		"ping":  {"messages    ", "round trip  now ", "99 % ", " jitter ", "\nlost on the way there: ", "standard deviation ", "\n       lost  "},
		"bench": {"       time   received          rate   jitter    lost   loss\n",
			" messages sent, ", "round trip under load  median "},
		"check": {"ok     reachable         ", "ok     clock             ", "ok     buffers           ", "ok     offload           ",
			"wrong  large messages    ", "ok     NAT               ", "\n1 thing is wrong.\n", "\nvolley: " + errCheck.Error() + "\n"},
		"token": {"protocol id   7\n", " (lifetime 30s)\n", "client id     42 (0x2a)\n", "user data     none\n"},
		"proxy": {`A line such as "loss 20%" changes that, "help" lists more; Ctrl-C ends it.`,
			"   time clients      up/s         rate    loss    down/s         rate    loss\n", "\n  by chance  ", "\n  full queue  "},
	} {
		for _, p := range parts {
			require.Contains(t, sections[title], p, title)
		}
	}
	p, err := lookupPreset("4g")
	require.NoError(t, err)
	require.Contains(t, sections["proxy"], "\n  up    "+describeLink(p.Up)+"\n  down  "+describeLink(p.Down)+"\n")
}

// TestDocsPresets: the table has the figures of the presets.
func TestDocsPresets(t *testing.T) {
	_, sections := toolsPage(t)
	text := strings.NewReplacer("*", "", "`", "").Replace(sections["proxy"])
	presets := simnet.Presets()
	require.Len(t, regexp.MustCompile(`(?m)^\| [a-z0-9]+ \|`).FindAllString(text, -1), len(presets)+1) // and the head
	for _, p := range presets {
		row := regexp.MustCompile(`(?m)^\| ` + p.Name + ` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|`).FindStringSubmatch(text)
		require.NotNil(t, row, p.Name)
		short := func(ms float64) string {
			if ms >= 1000 {
				return trimZeros(ms/1000) + " s"
			}
			return trimZeros(ms) + " ms"
		}
		require.Equal(t, short(p.RTT.Seconds()*1e3)+", "+short(p.RTT90.Seconds()*1e3), row[1], p.Name)
		for i, bits := range []int64{p.Down.Bandwidth, p.Up.Bandwidth} {
			var told bitrate
			require.NoError(t, told.Set(strings.ReplaceAll(row[2+i], " ", "")))
			require.InEpsilon(t, float64(bits), float64(told), 0.02, p.Name)
		}
		require.Equal(t, trimZeros(100*p.Loss)+" %", row[4], p.Name)
	}
}

func trimZeros(x float64) string { return strconv.FormatFloat(math.Round(x*1000)/1000, 'f', -1, 64) }
