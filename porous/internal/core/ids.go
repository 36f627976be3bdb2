package core

// Packet ids are numbers modulo 2^24, frame ids modulo 2^32. Distances are
// taken forwards and compared with a window's size.

const packetIDs = 1 << 24

// packetLead returns how far the packet id lies ahead of base.
func packetLead(id, base uint32) uint32 { return (id - base) & (packetIDs - 1) }

func nextPacket(id uint32) uint32 { return (id + 1) & (packetIDs - 1) }

// closes reports whether id is the last one of its group of n, the one that
// carries a sentinel or causes a window acknowledgement.
func closes(id, n uint32) bool { return id%n == n-1 }
