package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"volley/netcode"
)

// fetch gets tokens of a node, in their form on the wire.
func fetch(nodeURL string, count int) ([][]byte, error) {
	address, _, _ := strings.Cut(strings.TrimPrefix(nodeURL, "volley://"), "#")
	toks := make([][]byte, count)
	err := each(count, 8, func(i int) (err error) {
		for range 5 {
			if toks[i], err = fetchOne(address); err == nil {
				return nil
			}
			time.Sleep(200 * time.Millisecond)
		}
		return err
	})
	return toks, err
}

func fetchOne(address string) ([]byte, error) {
	// The drill has started the node, so it does not look at its key.
	c, err := tls.Dial("tcp", address, &tls.Config{NextProtos: []string{"volley/1"}, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	req := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: address, Path: "/.well-known/volley"}, Header: http.Header{"Volley-Server": {address}}, Close: true}
	if err := req.Write(c); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return b, err
}

// tokenAddress is where the address of the server is in a token.
const tokenAddress = 13 + 8 + 8 + 8 + 24 + 1024 + 4 + 4

// A shown counts what comes of tokens that are shown.
type shown struct {
	sessions int
	twice    int // tokens with more than one session
}

// show shows each token at all addresses at once. Look, if not nil, is called while the sessions
// stand.
func (n *shown) show(toks [][]byte, addresses []string, look func() error) error {
	var mu sync.Mutex
	var conns []*netcode.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	counts := make([]int, len(toks))
	err := each(len(toks)*len(addresses), atOnce, func(i int) error {
		token, address := i/len(addresses), addresses[i%len(addresses)]
		c, err := showAt(toks[token], address)
		if c == nil || err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		counts[token]++
		return nil
	})
	for _, k := range counts {
		n.sessions += k
		if k > 1 {
			n.twice++
		}
	}
	if err == nil && look != nil {
		err = look()
	}
	return err
}

// atOnce is how many tokens are shown at once.
const atOnce = 600

// showAt shows a token at an address. It returns nil if no session comes of that.
func showAt(b []byte, address string) (*netcode.Conn, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	b = append([]byte(nil), b...)
	ip := at.Addr().As4()
	copy(b[tokenAddress+1:], ip[:])
	binary.LittleEndian.PutUint16(b[tokenAddress+5:], at.Port())
	tok := new(netcode.Token)
	if err := tok.UnmarshalBinary(b); err != nil {
		return nil, err
	}
	if info := tok.Info(); len(info.Servers) != 1 || info.Servers[0] != at {
		return nil, errors.New("a token has another form")
	}
	ctx, cancel := context.WithTimeout(context.Background(), showTime)
	defer cancel()
	c, err := new(netcode.Dialer).Dial(ctx, tok)
	if err != nil {
		return nil, nil // refused, or not answered
	}
	return c, nil
}

// showTime is how long a node has to answer to a token.
const showTime = 2 * time.Second

// each calls f for 0 to n-1, some at once.
func each(n, atOnce int, f func(int) error) error {
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	errs := make([]error, n)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			errs[i] = f(i)
			<-turns
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
