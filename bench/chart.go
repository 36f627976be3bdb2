package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A chart shows one quantity of all peers as bars.
type chart struct {
	file, title string
	unit        string
	bars        []bar
}

type bar struct {
	name  string
	value float64
}

// charts returns those for which there are figures.
func (r *report) charts() []chart {
	return slices.DeleteFunc(r.allCharts(), func(c chart) bool { return len(c.bars) == 0 })
}

// gameChart is the first load of those measured.
func (r *report) gameChart() (m measurement, title string) {
	if ms := r.measurements(modeGame); len(ms) > 0 {
		m = ms[0]
	}
	return m, "Game rates, " + m.load.title() + ": the server's CPU time a message (less is better)"
}

// allCharts returns all there can be, in their order.
func (r *report) allCharts() (cs []chart) {
	gameMeasurement, gameTitle := r.gameChart()
	all := []struct {
		m     measurement
		file  string
		title string
		unit  string
		value func(*result) float64
	}{
		{gameMeasurement, "bench-game.svg", gameTitle, "µs", serverCPU},
		{measurement{mode: modeOneWay, size: usualSize, processes: 1}, "bench-oneway.svg", "One way, 256-byte messages: thousand messages a second (more is better)", "k/s", thousandsPerSecond},
		{measurement{mode: modeOneWay, size: usualSize, processes: 1}, "bench-cpu.svg", "One way, 256-byte messages: CPU time a message, both sides (less is better)", "ns", cpuPerMessage},
		{measurement{mode: modePingPong, size: usualSize, processes: 1}, "bench-pingpong.svg", "Ping-pong, 256 bytes: median round trip (less is better)", "µs", p50},
		{measurement{mode: modeIdle, size: usualSize, processes: 1}, "bench-idle.svg", "An idle connection, both sides: memory (less is better)", "bytes", idleBytes},
	}
	for _, a := range all {
		c := chart{file: a.file, title: a.title, unit: a.unit}
		for _, p := range r.options.peers {
			if rs := r.tally.of(a.m, p.name); len(rs) > 0 {
				c.bars = append(c.bars, bar{p.name, figureOf(rs, a.value).median})
			}
		}
		cs = append(cs, c)
	}
	return cs
}

func (r *report) writeCharts() error {
	for _, c := range r.charts() {
		if err := os.WriteFile(filepath.Join(r.options.out, c.file), []byte(c.svg()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Measures of a chart in pixels, and of its title in characters.
const (
	chartWidth  = 720
	labelWidth  = 160
	valueWidth  = 100
	barHeight   = 20
	barDistance = 26
	topHeight   = 22
	lineHeight  = 18
	titleWidth  = 76 // bold letters of the widest common typeface
)

// svg draws c. The colours suit light and dark pages.
func (c chart) svg() string {
	high := 0.0
	for _, b := range c.bars {
		high = max(high, b.value)
	}
	title := wrap(c.title, titleWidth)
	top := topHeight + lineHeight*len(title)
	height := top + barDistance*len(c.bars) + 6
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&s, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	for i, line := range title {
		fmt.Fprintf(&s, `<text x="8" y="%d" font-size="14" font-weight="bold" fill="#222222">%s</text>`+"\n", topHeight+lineHeight*i, html.EscapeString(line))
	}
	for i, b := range c.bars {
		y := top + i*barDistance
		colour := "#9aa5b1"
		if strings.HasPrefix(b.name, "volley") {
			colour = "#1f6feb"
		}
		w := barWidth(b.value, high)
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`, labelWidth-8, y+15, html.EscapeString(b.name))
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`, labelWidth, y, w, barHeight, colour)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" fill="#222222">%s %s</text>`+"\n", labelWidth+w+6, y+15, short(b.value), c.unit)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// barWidth returns how long the bar of a value is, in proportion to the highest.
func barWidth(v, high float64) float64 {
	const room = chartWidth - labelWidth - valueWidth
	if v <= 0 {
		return 1
	}
	return max(1, room*v/high)
}

// wrap breaks a text into lines of so many characters at most.
func wrap(text string, most int) (lines []string) {
	for _, word := range strings.Fields(text) {
		n := len(lines) - 1
		if n < 0 || utf8.RuneCountInString(lines[n])+1+utf8.RuneCountInString(word) > most {
			lines = append(lines, word)
		} else {
			lines[n] += " " + word
		}
	}
	return lines
}
