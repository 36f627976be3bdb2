package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A section is a part of the report, with what was measured together.
type section struct {
	mode  string // "": of no mode
	title string
	text  func(*strings.Builder)
}

// sections returns all there can be, in their order.
func (r *report) sections() []section {
	table := func(mode, about string, columns []column) func(*strings.Builder) {
		return func(b *strings.Builder) { r.modeTable(b, mode, about, columns) }
	}
	return []section{
		{modeGame, "Game rates", r.gameTables},
		{modeFanOut, "One message to all", r.fanOutTable},
		{"", "Peers", r.peerList},
		{modeOneWay, "One way, messages as fast as they go", func(b *strings.Builder) {
			r.sizeTable(b, modeOneWay, "Thousand messages a second ± spread (CPU ns a message).", oneWayCell)
		}},
		{modePingPong, "Ping-pong", func(b *strings.Builder) {
			r.sizeTable(b, modePingPong, "Round trip in µs: median / 99 % / 99.9 % (CPU ns a message).", pingPongCell)
		}},
		{modeFanIn, "Fan-in", table(modeFanIn, fmt.Sprintf("%d clients send to one server, 256 bytes.", fanInClients), rateColumns)},
		{modeBurst, "Bursts", table(modeBurst, fmt.Sprintf("%d messages of 256 bytes each millisecond, in one call where there is one.", burstSize), latencyColumns)},
		{modePaced, "Paced", table(modePaced, "8,000 messages of 256 bytes a second, 8 each millisecond, one call each.", latencyColumns)},
		{modeHazard, "Write, then compute", table(modeHazard, fmt.Sprintf("%d messages of 256 bytes, then %v of computation without a pause, "+
			"with all processors busy. Messages that a library leaves to another goroutine wait for the computation.", hazardSize, hazardCompute), latencyColumns[1:])},
		{modeIdle, "Idle connections", table(modeIdle, fmt.Sprintf("%d connections, both sides in one process, with a goroutine of the application in Read at the server's end, and then at both. "+
			"For one connection, both sides:", r.options.conns), idleColumns)},
		{"serve", "Serve and Poll", nil},  // by hand, from a run of mode game
		{"netplay", "Netplay", nil},       // written by bench/netplay, and kept here
		{"riptide", "Riptide", nil},       // by hand, from the benchmarks of package riptide
		{"lossy", "The lossy link", nil},  // written by bench/lossy, and kept here
		{"watched", "Being watched", nil}, // written by bench/watched, and kept here
		{"", "Where others win", func(b *strings.Builder) { b.WriteString(remarks) }},
	}
}

// document returns docs/BENCHMARKS.md. Sections of modes that were not measured
// stay as they are in old.
func (r *report) document(old string) string {
	kept := splitSections(old)
	var b strings.Builder
	b.WriteString(introduction)
	for _, c := range r.allCharts() {
		if len(c.bars) > 0 {
			fmt.Fprintf(&b, "![%s](%s)\n", c.title, c.file)
		} else {
			b.WriteString(chartLine(old, c.file))
		}
	}
	for _, s := range r.sections() {
		switch before, ok := kept[s.title]; {
		case s.mode == "" || len(r.measurements(s.mode)) > 0:
			b.WriteString("\n" + r.sectionText(s))
		case ok:
			b.WriteString("\n" + before)
		}
	}
	return b.String()
}

// sectionText returns one section, with where and when it was measured.
func (r *report) sectionText(s section) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", s.title)
	if s.mode != "" {
		b.WriteString(r.conditions(s.mode) + "\n\n")
	}
	s.text(&b)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// conditions says how the figures of a mode came about.
func (r *report) conditions(mode string) string {
	length := r.options.length
	if mode == modeGame || mode == modeFanOut {
		length = r.options.gameLength
	}
	return fmt.Sprintf("*%s, %s, %d processors%s, %s/%s%s; %s; %d rounds, %v a run.*", r.date.Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), processorText(),
		runtime.GOOS, runtime.GOARCH, kernelText(), r.options.place(), r.rounds(mode), length)
}

// chartLine returns the line of a document that shows a chart; "" if none does.
func chartLine(text, file string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "![") && strings.Contains(line, "]("+file+")") {
			return line
		}
	}
	return ""
}

// splitSections returns the sections of a document by their titles.
func splitSections(text string) map[string]string {
	parts := strings.Split("\n"+text, "\n## ")
	sections := make(map[string]string)
	for _, p := range parts[1:] {
		title, _, _ := strings.Cut(p, "\n")
		sections[title] = "## " + strings.TrimRight(p, "\n") + "\n"
	}
	return sections
}

// write puts the document and the charts of what was measured into a directory.
func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, "BENCHMARKS.md")
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(name, []byte(r.document(string(old))), 0o644); err != nil {
		return err
	}
	return r.writeCharts()
}

// tables returns the sections of what was measured.
func (r *report) tables() string {
	var b strings.Builder
	for _, s := range r.sections() {
		if s.mode != "" && len(r.measurements(s.mode)) > 0 {
			b.WriteString(r.sectionText(s) + "\n")
		}
	}
	return b.String()
}

// processorText returns the name of the processor, where it is easy to find.
func processorText() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if key, name, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return " (" + strings.TrimSpace(name) + ")"
		}
	}
	return ""
}
