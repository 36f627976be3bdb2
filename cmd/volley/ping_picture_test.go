package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// picture returns the lines of a picture after answers at times in milliseconds;
// 0 is one that is lost.
func pictureOf(t *testing.T, width int, rtts ...float64) ([]string, *pingPicture, *pingFigures) {
	t.Helper()
	t.Setenv("LC_ALL", "C.UTF-8")
	v := newPingPicture(new(bytes.Buffer), &pingLines{title: "203.0.113.5:7777: 64 bytes each 1s over volley"}, func() int { return width })
	f := newPingFigures(time.Second)
	for i, ms := range rtts {
		at := time.Duration(i) * time.Second
		f.send(at)
		if ms > 0 {
			rtt := time.Duration(ms * float64(time.Millisecond))
			f.answer(answer{probe: probe{kind: probePing, number: uint64(i)}, at: at + rtt, size: 64}, v)
		}
	}
	end := time.Duration(len(rtts)+2) * time.Second
	f.expire(end, v)
	return v.compose(end, f, true), v, f
}

func TestPingPicture(t *testing.T) {
	rtts := make([]float64, 500)
	for i := range rtts {
		rtts[i] = 20 + float64(i%7)
	}
	rtts[498], rtts[499] = 0, 75
	for _, width := range []int{20, 60, 80, 120, 300} {
		lines, _, _ := pictureOf(t, width, rtts...)
		require.Contains(t, lines[0], "203.0.113.5:7777")
		require.Contains(t, lines[3], "80 ms ┤")
		require.Contains(t, lines[11], "0 ms ┤")
		graph := lines[3 : 3+pictureHeight+1]
		for _, l := range graph {
			require.LessOrEqual(t, utf8.RuneCountInString(l), max(width-1, 20), l)
		}
		marks := lines[3+pictureHeight+1]
		require.Contains(t, marks, "lost")
		require.Equal(t, 1, strings.Count(marks, "x"))
		if width >= 60 { // every line fits
			require.Contains(t, strings.Join(lines, "\n"), "500 sent, 499 answered, 0.2 % lost")
			for _, l := range lines {
				require.Less(t, utf8.RuneCountInString(l), 60+max(0, width-60), l)
			}
		}
	}
}

// TestPingPictureBegins: before there is anything, and with a single answer.
func TestPingPictureBegins(t *testing.T) {
	lines, _, _ := pictureOf(t, 80)
	require.Contains(t, strings.Join(lines, "\n"), "waiting for the first answer")
	lines, _, _ = pictureOf(t, 80, 0, 0)
	require.Contains(t, strings.Join(lines, "\n"), "waiting for the first answer")
	lines, v, f := pictureOf(t, 80, 0.123)
	require.Contains(t, strings.Join(lines, "\n"), "0.16 ms")
	v.redraw(time.Second, f)
	v.redraw(2*time.Second, f)
	out := v.w.(*bytes.Buffer).String()
	require.Contains(t, out, "\x1b[17A", "the second is drawn over the first")
	v.finish("203.0.113.5:7777", f, nil)
	require.Contains(t, v.w.(*bytes.Buffer).String(), "1 sent, 1 answered")
}

func TestScaleStep(t *testing.T) {
	for top, want := range map[float64]float64{1: 0.2, 8: 1, 8.1: 2, 64: 8, 65: 10, 150: 20, 0.05: 0.008} {
		require.InDelta(t, want, scaleStep(top), 1e-9, top)
	}
}

// TestHistogram: every sample is in one bar, and bars begin at round numbers.
func TestHistogram(t *testing.T) {
	s := newSamples()
	require.Nil(t, s.histogram(12))
	for i := range 1000 {
		s.add(time.Duration(100000+i*20) * time.Microsecond)
	}
	s.add(3 * time.Second)
	bins := s.histogram(12)
	require.Equal(t, 100*time.Millisecond, bins[0].low)
	require.Equal(t, 2*time.Millisecond, bins[0].high-bins[0].low)
	count := 0
	for i, b := range bins {
		count += b.count
		if i > 0 {
			require.Equal(t, bins[i-1].high, b.low)
		}
	}
	require.Equal(t, 1001, count)
	last := bins[len(bins)-1]
	require.True(t, last.open)
	require.LessOrEqual(t, len(bins), 14)
	var out bytes.Buffer
	printHistogram(&out, bins, 60)
	require.Contains(t, out.String(), "and more ms")
	for _, l := range strings.Split(out.String(), "\n") {
		require.Less(t, utf8.RuneCountInString(l), 60)
	}
}

// TestSamplesBounded: percentiles of more samples than are kept are still right.
func TestSamplesBounded(t *testing.T) {
	s := newSamples()
	for i := range 4 * maxSamples {
		s.add(time.Duration(1 + i*7919%(4*maxSamples)))
	}
	require.Len(t, s.all, maxSamples)
	require.EqualValues(t, 4*maxSamples, s.max)
	p := s.percentiles(0.5, 0.99)
	require.InEpsilon(t, 0.5*4*maxSamples, float64(p[0]), 0.02)
	require.InEpsilon(t, 0.99*4*maxSamples, float64(p[1]), 0.02)
}

func TestBitrate(t *testing.T) {
	for text, want := range map[string]float64{"10Mbit": 1e7, "10M": 1e7, "1.5Gbit/s": 1.5e9, "64kbit": 64000, "64k": 64000, "100Kbps": 1e5, "500bit": 500, "0": 0} {
		var b bitrate
		require.NoError(t, b.Set(text), text)
		require.InDelta(t, want, float64(b), 1e-6, text)
	}
	for _, text := range []string{"", "10", "M", "-1M", "xM", "10MB", "1e30G", "NaNM"} {
		var b bitrate
		require.Error(t, b.Set(text), text)
	}
	var s size
	for text, want := range map[string]int{"1200": 1200, "16KiB": 16384, "16K": 16384, "1M": 1 << 20, "64B": 64} {
		require.NoError(t, s.Set(text), text)
		require.EqualValues(t, want, s, text)
	}
	for _, text := range []string{"", "-1", "x", "1.5K", "99999999999M"} {
		require.Error(t, s.Set(text), text)
	}
	var d span
	require.NoError(t, d.Set("0.2"))
	require.EqualValues(t, 200*time.Millisecond, d)
	require.NoError(t, d.Set("1m"))
	require.EqualValues(t, time.Minute, d)
	for _, text := range []string{"", "-1s", "-1", "NaN", "1e99", "x"} {
		require.Error(t, d.Set(text), text)
	}
}
