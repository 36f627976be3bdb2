package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"volley/internal/dissect"
)

// A decodePrinter decodes datagrams and prints what is in them.
type decodePrinter struct {
	o      *decodeOptions
	out    *bufio.Writer
	json   *json.Encoder
	number int

	options dissect.Options
}

func newDecodePrinter(o *decodeOptions, out io.Writer) (*decodePrinter, error) {
	p := &decodePrinter{o: o, out: bufio.NewWriter(out)}
	p.json = json.NewEncoder(p.out)
	if o.token == "" {
		return p, nil
	}
	token, err := readToken(nil, []string{o.token})
	if err != nil {
		return nil, fmt.Errorf("--token: %w", err)
	}
	b, err := token.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("--token: %w", err)
	}
	keys, ok := dissect.TokenKeys(b)
	if !ok {
		panic("BUG: a token that was read has no keys")
	}
	p.options.Keys = []dissect.Keys{keys}
	return p, nil
}

func (p *decodePrinter) flush() error { return p.out.Flush() }

// A sight is a datagram, and what is known of it from outside.
type sight struct {
	at       time.Time // zero: unknown
	from, to netip.AddrPort
	tcp      bool
	bytes    []byte
	note     string // what is odd about it beside its content
}

func (p *decodePrinter) hex(b []byte) error {
	_, only := p.o.protocol.Streams()
	if !p.o.tcp && !only {
		return p.datagram(sight{bytes: b})
	}
	for len(b) > 0 {
		n, err := dissect.Next(p.o.protocol, b)
		if err != nil || n == 0 || n > len(b) {
			n = len(b) // decoding says what is wrong
		}
		if err := p.datagram(sight{bytes: b[:n], tcp: true}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (p *decodePrinter) datagram(s sight) error {
	p.number++
	p.options.Stream = s.tcp
	d := dissect.Decode(p.o.protocol, s.bytes, &p.options)
	if p.o.json {
		return p.json.Encode(newDecodedJSON(p.number, &s, &d))
	}
	p.line(&s, &d)
	if p.o.verbose {
		p.tree(&d)
	}
	return nil
}

func (p *decodePrinter) line(s *sight, d *dissect.Datagram) {
	if !s.at.IsZero() {
		fmt.Fprintf(p.out, "%s ", s.at.UTC().Format("15:04:05.000000"))
	}
	if s.from.IsValid() {
		fmt.Fprintf(p.out, "%v > %v ", s.from, s.to)
	}
	fmt.Fprintf(p.out, "%s %s", d.Protocol, d.Summary)
	if s.note != "" {
		fmt.Fprintf(p.out, " (%s)", s.note)
	}
	p.out.WriteByte('\n')
}

func (p *decodePrinter) tree(d *dissect.Datagram) {
	width := 0
	d.All(func(f dissect.Field, depth int) { width = max(width, 2*depth+len(shortName(f.Name))) })
	d.All(func(f dissect.Field, depth int) {
		place := fmt.Sprintf("%d+%d", f.Offset, f.Length)
		if f.In != "" {
			place = "made"
		}
		name := strings.Repeat("  ", depth) + shortName(f.Name)
		fmt.Fprintln(p.out, trimRight(fmt.Sprintf("%10s  %-*s  %s", place, width, name, f.String())))
	})
	if len(d.Fields) > 0 {
		p.out.WriteByte('\n')
	}
}

// shortName is the name of a field without "volley." and the protocol.
func shortName(name string) string {
	_, name, _ = strings.Cut(strings.TrimPrefix(name, "volley."), ".")
	return name
}

// decodedJSON is a line of --json.
type decodedJSON struct {
	Number   int              `json:"number"`
	Time     *time.Time       `json:"time,omitempty"`
	From     string           `json:"from,omitempty"`
	To       string           `json:"to,omitempty"`
	TCP      bool             `json:"tcp,omitempty"`
	Bytes    int              `json:"bytes"`
	Protocol dissect.Protocol `json:"protocol"`
	Summary  string           `json:"summary"`
	Problem  string           `json:"problem,omitempty"`
	Note     string           `json:"note,omitempty"`
	Capture  string           `json:"capture,omitempty"`
	Fields   []fieldJSON      `json:"fields,omitempty"`
}

// fieldJSON is a field of --json. Bytes are hexadecimal digits.
type fieldJSON struct {
	Name   string      `json:"name"`
	Value  any         `json:"value,omitempty"`
	Text   string      `json:"text,omitempty"`
	Offset int         `json:"offset"`
	Length int         `json:"length"`
	In     string      `json:"in,omitempty"`
	Fields []fieldJSON `json:"fields,omitempty"`
}

func newDecodedJSON(number int, s *sight, d *dissect.Datagram) decodedJSON {
	j := decodedJSON{
		Number: number, TCP: s.tcp, Bytes: len(s.bytes), Protocol: d.Protocol,
		Summary: d.Summary, Problem: d.Problem, Note: d.Note, Capture: s.note, Fields: fieldsJSON(d.Fields),
	}
	if !s.at.IsZero() {
		at := s.at.UTC()
		j.Time = &at
	}
	if s.from.IsValid() {
		j.From, j.To = s.from.String(), s.to.String()
	}
	return j
}

func fieldsJSON(fields []dissect.Field) (list []fieldJSON) {
	for _, f := range fields {
		value := f.Value
		if b, ok := value.([]byte); ok {
			value = hex.EncodeToString(b)
		}
		list = append(list, fieldJSON{f.Name, value, f.Text, f.Offset, f.Length, f.In, fieldsJSON(f.Fields)})
	}
	return list
}
