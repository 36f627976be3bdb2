package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"volley"
	"volley/netcode"
)

// join gets a connect token from the matchmaker.
func join(ctx context.Context, url, name string) (*joinAnswer, error) {
	body, err := json.Marshal(joinRequest{Name: name})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/join", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return nil, fmt.Errorf("matchmaker: %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	answer := new(joinAnswer)
	if err := json.NewDecoder(io.LimitReader(resp.Body, 8192)).Decode(answer); err != nil {
		return nil, fmt.Errorf("matchmaker: %w", err)
	}
	if answer.Token == nil {
		return nil, errors.New("matchmaker: no token in its answer")
	}
	return answer, nil
}

// play joins, connects and guesses. It returns how many guesses it took.
func play(ctx context.Context, url, name string) (guesses int, err error) {
	ticket, err := join(ctx, url, name)
	if err != nil {
		return 0, err
	}
	session, err := new(netcode.Dialer).Dial(ctx, ticket.Token)
	if err != nil {
		return 0, err
	}
	c, err := volley.NewConn(session, nil)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	low, high := 1, numbers
	for low <= high {
		guess := (low + high) / 2
		guesses++
		verdict, err := ask(c, guess)
		if err != nil {
			return guesses, err
		}
		switch verdict {
		case "right":
			return guesses, nil
		case "higher":
			low = guess + 1
		case "lower":
			high = guess - 1
		default:
			return guesses, fmt.Errorf("the server says %q", verdict)
		}
	}
	return guesses, errors.New("the server cheats")
}

// patience is how long a server may take to answer: long, since a session that
// has ended says so.
const patience = 30 * time.Second

// ask makes a guess and waits for the verdict. Messages may be lost, so it
// asks again after a while; answers to earlier guesses are skipped.
func ask(c *volley.Conn, guess int) (verdict string, err error) {
	buf := make([]byte, c.MaxMessageSize())
	for begin := time.Now(); time.Since(begin) < patience; {
		if _, err := fmt.Fprint(c, guess); err != nil {
			return "", err
		}
		c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		for {
			n, err := c.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return "", err
			}
			what, verdict, _ := strings.Cut(string(buf[:n]), " ")
			if what == fmt.Sprint(guess) {
				return verdict, nil
			}
		}
	}
	return "", errors.New("the server does not answer")
}
