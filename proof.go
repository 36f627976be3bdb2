package volley

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"
	"sync"
	"time"

	"volley/internal/wire"
)

// So many strangers become connections in a second, and so many at once, without a proof
// that they are at their address, or a part of ListenConfig.MaxConns if that is more. Beyond
// that a flood is likely, and its sources are forged.
const (
	openingsPerSecond = 2048
	openingsAtOnce    = 8192
	shareAtOnce       = 16 // one in so many of MaxConns
	sharePerSecond    = 64
	// Of those that send a hello so many are asked, so that a client is within some tries.
	asksPerSecond = 20_000
	asksAtOnce    = 2000
)

// proofs ask strangers for that proof, and keep nothing of them: the question has a token
// that follows from the stranger's address and own token, by a key that only we have. The
// stranger's answer returns it, and it becomes the connection's token.
type proofs struct {
	openings bucket
	asks     bucket
	start    time.Time

	mu  sync.Mutex
	mac hash.Hash
	buf [sha256.Size]byte // what is summed, and then the sum
}

// proofEpoch is how long a token is good at least, and twice as long at most. All questions
// that a peer answers again leave within 16 s.
const proofEpoch = 16 * time.Second

func newProofs(maxConns int) *proofs {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	return &proofs{
		openings: bucket{
			perSecond: time.Duration(max(openingsPerSecond, maxConns/sharePerSecond)),
			atOnce:    time.Duration(max(openingsAtOnce, maxConns/shareAtOnce)),
		},
		asks:  bucket{perSecond: asksPerSecond, atOnce: asksAtOnce},
		start: time.Now(),
		mac:   hmac.New(sha256.New, key),
	}
}

// epoch returns the number of the present epoch, from 1 on.
func (p *proofs) epoch(now time.Time) uint64 { return 1 + uint64(max(0, now.Sub(p.start))/proofEpoch) }

// token returns the token of a stranger. Its low byte is that of the epoch, so that most
// forged answers need no sum.
func (p *proofs) token(from netip.AddrPort, stranger, epoch uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := from.Addr().As16()
	b := append(p.buf[:0], at[:]...)
	b = binary.LittleEndian.AppendUint64(b, stranger)
	b = binary.LittleEndian.AppendUint64(b, epoch<<16|uint64(from.Port()))
	p.mac.Reset()
	p.mac.Write(b)
	sum := binary.LittleEndian.Uint64(p.mac.Sum(p.buf[:0]))
	return max(1, sum<<8|epoch&0xff)
}

// answer returns an answer among datagrams that proves that the stranger is at its address.
func (p *proofs) answer(now time.Time, from netip.AddrPort, bufs [][]byte) (salute, bool) {
	epoch := p.epoch(now)
	for _, b := range bufs {
		if len(b) != greetingSize || b[0] != answerPrefix {
			continue
		}
		s, ok := parseSalute(b)
		if !ok {
			continue
		}
		for _, e := range [...]uint64{epoch, epoch - 1} {
			if s.echo&0xff == e&0xff && s.echo == p.token(from, s.token, e) {
				return s, true
			}
		}
	}
	return salute{}, false
}

// ask asks a stranger that has sent a hello, which is as large as the question.
func (a *acceptor) ask(now time.Time, from netip.AddrPort, hello salute, out *wire.Batch) {
	if a.told.may(&a.proofs.asks, now, from) {
		token := a.proofs.token(from, hello.token, a.proofs.epoch(now))
		salute{token: token, protocol: a.set.protocol}.put(out.Extend(greetingSize), questionPrefix)
	}
}
