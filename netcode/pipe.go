package netcode

import (
	"net/netip"
	"time"

	"volley/internal/datagram"
)

// Pipe returns the two sides of a session in memory, for tests. Messages are sealed and
// opened as between machines, but none is lost and the order is kept. Write waits until
// the other side has room. After Close the other side reads the remaining messages and
// then io.EOF. There is no handshake and no timeout. Only the first 256 bytes of userData
// count.
func Pipe(clientID uint64, userData []byte) (client, server *Conn) {
	x, y := datagram.NewPipe(datagram.PipeAddr{Net: "netcode-pipe", Name: "client"}, datagram.PipeAddr{Net: "netcode-pipe", Name: "server"})
	up, down := GenerateKey(), GenerateKey()
	client = newPipeConn(x, &up, &down, y)
	server = newPipeConn(y, &down, &up, x)
	client.sess.client, client.sess.strict = true, 1
	server.sess.id = clientID
	copy(server.sess.userData[:], userData)
	x.Attach((*handler)(client))
	y.Attach((*handler)(server))
	pipedConns.Add(client)
	pipedConns.Add(server)
	return client, server
}

func newPipeConn(dc datagram.Conn, send, recv *Key, other datagram.Conn) *Conn {
	sess := &session{interval: never, confirmed: true}
	sess.send.cipher = newPacketCipher(send, 0)
	sess.recv.cipher = newPacketCipher(recv, 0)
	sess.recv.window = newReplayWindow(defaultWindow)
	sess.send.last, sess.recv.last = time.Now(), time.Now()
	sess.addr = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	c := &Conn{slots: 1, alive: true}
	c.init(dc, sess, &settings{readBuffer: defaultReadBuffer}, nil)
	c.remote = other.LocalAddr()
	c.onClose = func() { pipedConns.Ended(c) }
	return c
}
