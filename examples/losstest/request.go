// Package losstest shows how to test a program's own protocol on a network that
// loses messages: see its test, which runs minutes of traffic in virtual time.
package losstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// A Client asks a server questions over a connection that may lose questions
// and answers, and repeats them until it has the answer.
type Client struct {
	Conn     net.Conn
	Patience time.Duration // for one try
	Tries    int

	number uint32
}

// Ask returns the answer to a question. Answers to earlier questions, which
// come late or twice, are passed over.
func (c *Client) Ask(question string) (string, error) {
	c.number++
	msg := append(binary.BigEndian.AppendUint32(nil, c.number), question...)
	for range c.Tries {
		if _, err := c.Conn.Write(msg); err != nil {
			return "", err
		}
		answer, err := c.await(time.Now().Add(c.Patience))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return answer, err
		}
	}
	return "", fmt.Errorf("no answer after %d tries: %w", c.Tries, os.ErrDeadlineExceeded)
}

// await reads until the answer to the current question comes.
func (c *Client) await(deadline time.Time) (string, error) {
	c.Conn.SetReadDeadline(deadline)
	buf := make([]byte, 1024)
	for {
		n, err := c.Conn.Read(buf)
		if err != nil {
			return "", err
		}
		if n >= 4 && binary.BigEndian.Uint32(buf) == c.number {
			return string(buf[4:n]), nil
		}
	}
}

// Serve answers questions until the connection ends.
func Serve(conn net.Conn, answer func(question string) string) error {
	buf := make([]byte, 1024)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		if n < 4 {
			continue
		}
		reply := append(buf[:4:4], answer(string(buf[4:n]))...)
		if _, err := conn.Write(reply); err != nil {
			return err
		}
	}
}
