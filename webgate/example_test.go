package webgate_test

import (
	"errors"
	"fmt"
	"net/http"

	"volley"
	"volley/webgate"
)

// A server lets the browsers of one page in, by a ticket, and echoes what they send.
func Example() {
	cert, hash, err := webgate.DevCertificate() // in production one that browsers trust
	if err != nil {
		panic(err)
	}
	gate, err := webgate.Listen("127.0.0.1:0", &webgate.Config{
		Certificate: cert,
		Origins:     []string{"http://localhost:8000"},
		Authorize: func(r *http.Request) (any, error) {
			if r.FormValue("ticket") != "ann's" {
				return nil, errors.New("no such ticket")
			}
			return "ann", nil
		},
	})
	if err != nil {
		panic(err)
	}
	ln, err := volley.NewListener(gate, nil)
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	go ln.Serve(volley.Handler{Message: func(c *volley.Conn, msg []byte) { c.Write(msg) }})

	// The page: dial("https://127.0.0.1:PORT/join", { ticket, certificateHash })
	fmt.Println(gate.Addr().Network(), len(hash))
	// Output: webtransport 44
}
