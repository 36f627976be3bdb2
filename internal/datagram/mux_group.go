package datagram

import "sync"

// A MuxGroup is that of the Muxes whose sockets share one port. The kernel
// chooses the socket of a peer by a hash over those there are, so when one
// closes, peers of the others come out at sockets where nobody knows them. The
// sockets of a group therefore close together, once every Mux is closed and has
// no Conn.
type MuxGroup struct {
	mu    sync.Mutex
	muxes []*Mux
	gone  map[*Mux]bool // those that need their sockets no more
}

// NewMuxGroup returns a group. Its Muxes start and close only once all are made.
func NewMuxGroup() *MuxGroup { return &MuxGroup{gone: make(map[*Mux]bool)} }

func (g *MuxGroup) join(m *Mux) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.muxes = append(g.muxes, m)
}

// leave notes that m is over. The last one closes all sockets, and returns the first error.
func (g *MuxGroup) leave(m *Mux) (first error) {
	g.mu.Lock()
	before := len(g.gone)
	g.gone[m] = true
	last := before < len(g.gone) && len(g.gone) == len(g.muxes)
	g.mu.Unlock()
	if !last {
		return nil
	}
	for _, m := range g.muxes {
		if err := m.closeGrouped(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// closeGrouped closes the socket, also of a Mux whose socket broke earlier.
func (m *Mux) closeGrouped() error {
	ended := m.end()
	err := m.sock.Close()
	if !ended {
		return nil // the error that broke it has been told
	}
	if m.cfg.OnClose != nil {
		m.cfg.OnClose(nil)
	}
	return err
}
