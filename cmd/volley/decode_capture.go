package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gopacket/gopacket/layers"

	"volley/cmd/volley/internal/packets"
	"volley/internal/dissect"
)

// A captureReader decodes the packets of a capture.
type captureReader struct {
	*decodePrinter
	streams packets.Streams

	packets int
	seen    int                     // of UDP and TCP, before --port
	unknown map[layers.LinkType]int // by what is in front of IP
}

func (p *decodePrinter) capture(in io.Reader) error {
	r, err := packets.NewReader(in)
	if err != nil {
		return err
	}
	c := &captureReader{decodePrinter: p, unknown: make(map[layers.LinkType]int)}
	for {
		packet, err := r.Next()
		if errors.Is(err, io.EOF) {
			return c.finish()
		}
		if err != nil {
			return errors.Join(err, c.finish())
		}
		c.packets++
		if err := c.packet(&packet); err != nil {
			return err
		}
	}
}

// finish says why nothing was printed.
func (c *captureReader) finish() error {
	for link, n := range c.unknown {
		return fmt.Errorf("%s not decoded: link type %d is not known here", plural(n, "packet is", "packets are"), link)
	}
	switch {
	case c.number > 0:
		return nil
	case c.packets == 0:
		return errors.New("the capture has no packets")
	case c.seen == 0:
		return fmt.Errorf("no UDP and no TCP among %s", plural(c.packets, "packet", "packets"))
	case len(c.o.ports) > 0:
		return fmt.Errorf("no packet of port %v among %s", c.o.ports, plural(c.seen, "packet", "packets"))
	}
	return nil // of TCP, without data
}

func (c *captureReader) packet(p *packets.Packet) error {
	s, kind := packets.Parse(p.Link, p.Data)
	switch kind {
	case packets.Unknown:
		if len(c.unknown) < 16 {
			c.unknown[p.Link]++
		}
		return nil
	case packets.Fragment:
		c.seen++
		return c.fragment(p)
	case packets.Other:
		return nil
	}
	c.seen++
	if len(c.o.ports) > 0 && !slices.Contains(c.o.ports, uint(s.From.Port())) && !slices.Contains(c.o.ports, uint(s.To.Port())) {
		return nil
	}
	also, only := c.o.protocol.Streams()
	switch {
	case s.TCP && also:
		return c.segment(p.Time, &s)
	case s.TCP || only:
		return nil
	}
	seen := sight{at: p.Time, from: s.From, to: s.To, bytes: s.Payload}
	if s.Missing > 0 {
		seen.note = plural(s.Missing, "byte was", "bytes were") + " not captured; see tcpdump -s"
	}
	return c.datagram(seen)
}

// fragment tells of a fragment of IP, whose ports are not known.
func (c *captureReader) fragment(p *packets.Packet) error {
	if len(c.o.ports) > 0 || c.o.json {
		return nil
	}
	c.number++
	_, err := fmt.Fprintf(c.out, "%s a fragment of IP, %s, not decoded\n",
		p.Time.UTC().Format("15:04:05.000000"), plural(p.Size, "byte", "bytes"))
	return err
}

// segment adds a piece of a TCP stream, and decodes what is whole.
func (c *captureReader) segment(at time.Time, s *packets.Segment) error {
	stream := c.streams.Add(s)
	for len(stream.Bytes) > 0 {
		n, err := dissect.Next(c.o.protocol, stream.Bytes)
		whole := n > 0 && n <= len(stream.Bytes)
		if !whole && err == nil && !stream.Ended && !stream.Gap {
			return nil
		}
		seen := sight{at: at, from: s.From, to: s.To, tcp: true, bytes: stream.Bytes}
		if whole {
			seen.bytes = stream.Bytes[:n]
		} else {
			stream.Gap = true // nothing of it can be found any more
			seen.note = "the rest of the stream is not decoded"
		}
		if err := c.datagram(seen); err != nil {
			return err
		}
		if stream.Bytes = stream.Bytes[len(seen.bytes):]; len(stream.Bytes) == 0 {
			stream.Bytes = nil
		}
	}
	return nil
}
