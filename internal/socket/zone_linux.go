package socket

import (
	"net"
	"strconv"
	"sync"
	"time"
)

// zoneLifetime is how long the name of an interface is taken for granted.
const zoneLifetime = time.Minute

// maxZones bounds the names that are remembered, since an application may ask for any.
const maxZones = 256

// zones is shared by all sockets.
var zones = zoneCache{names: make(map[uint32]zone[string]), indices: make(map[string]zone[uint32])}

// A zoneCache translates between the scope of a link-local IPv6 address, an interface's
// index, and its zone, the interface's name.
type zoneCache struct {
	mu      sync.Mutex
	names   map[uint32]zone[string]
	indices map[string]zone[uint32]
}

type zone[T any] struct {
	value   T
	expires time.Time
}

// name returns the zone of a scope: its number if there is no such interface.
func (c *zoneCache) name(index uint32) string {
	return lookUp(c, c.names, index, func() string {
		if ifi, err := net.InterfaceByIndex(int(index)); err == nil {
			return ifi.Name
		}
		return strconv.FormatUint(uint64(index), 10)
	})
}

// index returns the scope of a zone, zero if there is none.
func (c *zoneCache) index(name string) uint32 {
	return lookUp(c, c.indices, name, func() uint32 {
		if ifi, err := net.InterfaceByName(name); err == nil {
			return uint32(ifi.Index)
		}
		n, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return 0
		}
		return uint32(n)
	})
}

// lookUp returns what find returns, or has returned a short time ago.
func lookUp[K comparable, V any](c *zoneCache, known map[K]zone[V], key K, find func() V) V {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	z, ok := known[key]
	if !ok || !now.Before(z.expires) {
		if len(known) >= maxZones {
			clear(known)
		}
		z = zone[V]{find(), now.Add(zoneLifetime)}
		known[key] = z
	}
	return z.value
}
