package interop

import (
	"fmt"
	"net"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// texts answers a question for texts with as many as its name says, more than a
// datagram carries.
var texts = dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
	var count int
	fmt.Sscanf(q.Question[0].Name, "texts-%d.", &count)
	m := new(dns.Msg).SetReply(q)
	for i := range count {
		m.Answer = append(m.Answer, &dns.TXT{
			Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 1},
			Txt: []string{fmt.Sprintf("text %d, as long as texts in the names of machines are", i)},
		})
	}
	w.WriteMsg(m)
})

// resolve asks for so many texts and looks at all of them.
func resolve(t *testing.T, c net.Conn, count int) {
	t.Helper()
	q := new(dns.Msg).SetQuestion(fmt.Sprintf("texts-%d.example.", count), dns.TypeTXT)
	client := &dns.Client{Timeout: patience, UDPSize: 16384}
	m, _, err := client.ExchangeWithConn(q, &dns.Conn{Conn: c, UDPSize: 16384})
	require.NoError(t, err)
	require.False(t, m.Truncated)
	require.Len(t, m.Answer, count)
	for i, rr := range m.Answer {
		require.Contains(t, rr.(*dns.TXT).Txt[0], fmt.Sprintf("text %d,", i))
	}
}

// serveDNS serves on pc until the test is over.
func serveDNS(t *testing.T, pc net.PacketConn) {
	t.Helper()
	started := make(chan struct{})
	s := &dns.Server{PacketConn: pc, Handler: texts, NotifyStartedFunc: func() { close(started) }}
	result := make(chan error, 1)
	go func() { result <- s.ActivateAndServe() }()
	select {
	case <-started:
	case err := <-result:
		require.FailNow(t, "the server does not start", "%v", err)
	}
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown())
		done(t, result)
	})
}

// A client and a server of DNS at the two ends of one connection.
func TestDNSOverConn(t *testing.T) {
	a, b := pair(t, nil)
	serveDNS(t, b)
	for _, count := range []int{1, 10, 100} {
		resolve(t, a, count)
	}
}
