package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestUTF8Locale(t *testing.T) {
	for _, test := range []struct {
		all, lang string
		want      bool
	}{{"", "en_US.UTF-8", true}, {"", "C.utf8", true}, {"C", "en_US.UTF-8", false}, {"", "C", false}} {
		t.Setenv("LC_ALL", test.all)
		t.Setenv("LC_CTYPE", "")
		t.Setenv("LANG", test.lang)
		if got := utf8Locale(); got != test.want {
			t.Errorf("LC_ALL=%s LANG=%s: %v, want %v", test.all, test.lang, got, test.want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{formatSize(1), "1 byte"},
		{formatSize(1000), "1000 bytes"},
		{formatSize(16 << 10), "16 KiB"},
		{formatSize(123456), "120.6 KiB"},
		{formatSize(12345678), "11.8 MiB"},
		{formatRate(812_345), "812 kbit/s"},
		{formatRate(1.5e6), "1.50 Mbit/s"},
		{formatRate(2e9), "2.00 Gbit/s"},
		{plural(1, "datagram", "datagrams"), "1 datagram"},
		{plural(0, "datagram", "datagrams"), "0 datagrams"},
	} {
		if test.got != test.want {
			t.Errorf("formatted as %q, want %q", test.got, test.want)
		}
	}
}

// TestSixtyColumns: the summary of ping fits a narrow terminal, in whole words.
func TestSixtyColumns(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	const width = 60
	var b strings.Builder
	f := newPingFigures(time.Second)
	f.sent, f.answered, f.lost, f.elapsed = 123456, 100000, 23456, time.Hour
	f.rtts.add(1234 * time.Millisecond)
	printPingSummary(&b, "[2001:db8:1234:5678:9abc:def0:1234:5678]:40000", f, []string{strings.Repeat("advice ", 20)}, width)
	for l := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > width {
			t.Errorf("%d characters: %q", n, l)
		}
	}
	if want := "123456 sent,\n100000 answered"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in %q", want, b.String())
	}
}
