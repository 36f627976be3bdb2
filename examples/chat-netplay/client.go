package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"volley/netplay"
)

// chat logs in to the server at address, prints what comes, and sends the lines
// of in until there are no more, ctx is done or the server closes.
func chat(ctx context.Context, address, name string, in io.Reader, out io.Writer) error {
	client := &netplay.Client{
		Registry:  registry(),
		Config:    netplay.ReferenceConfig(),
		Address:   address,
		OnConnect: func(c *netplay.Conn) error { return c.WriteMessage(context.Background(), &Login{name}) },
	}
	netplay.Handle(client, func(_ *netplay.Conn, m *Chat) error {
		_, err := fmt.Fprintf(out, "%s: %s\n", m.Sender, m.Message)
		return err
	})
	netplay.Handle(client, func(_ *netplay.Conn, m *Notification) error {
		_, err := fmt.Fprintf(out, "* %s\n", m.Message)
		return err
	})
	ran := make(chan error, 1)
	go func() { ran <- client.Run(ctx) }()
	go send(ctx, client, in, out)
	err := <-ran
	if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// send sends lines, and then ends the client. Reading the terminal cannot be
// interrupted, so that it may outlive the chat.
func send(ctx context.Context, client *netplay.Client, in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		err := client.WriteMessage(ctx, &Chat{Message: lines.Text()})
		if large := (*netplay.MessageTooLargeError)(nil); errors.As(err, &large) {
			fmt.Fprintln(out, "* that was too long")
		} else if err != nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := client.Shutdown(ctx); err != nil {
		fmt.Fprintln(out, "*", err)
	}
}
