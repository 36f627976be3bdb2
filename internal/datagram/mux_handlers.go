package datagram

// Handlers returns those of the Conns.
func (m *Mux) Handlers() []Handler { return m.AppendHandlers(nil) }

// AppendHandlers appends the Handlers of the Conns to hs.
func (m *Mux) AppendHandlers(hs []Handler) []Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.allLocked() {
		if p.handler != nil { // else its Admit is under way
			hs = append(hs, p.handler)
		}
	}
	return hs
}
