package socket

import (
	"net"
	"strconv"
	"sync"
	"time"
)

// zoneLifetime is how long the name of an interface is taken for granted.
const zoneLifetime = time.Minute

// maxZones bounds the names that are remembered, since an application may ask
// for any.
const maxZones = 256

// zones is shared by all sockets.
var zones = zoneCache{byName: make(map[string]zone), byIndex: make(map[uint32]zone)}

// A zoneCache translates between the scope of a link-local IPv6 address, the
// index of an interface, and its zone, the interface's name, as the net
// package does.
type zoneCache struct {
	mu      sync.Mutex
	byName  map[string]zone
	byIndex map[uint32]zone
}

type zone struct {
	name    string
	index   uint32
	expires time.Time
}

// name returns the zone of a scope: its number if it is no interface's.
func (c *zoneCache) name(index uint32) string {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if z, ok := c.byIndex[index]; ok && now.Before(z.expires) {
		return z.name
	}
	z := zone{strconv.FormatUint(uint64(index), 10), index, now.Add(zoneLifetime)}
	if ifi, err := net.InterfaceByIndex(int(index)); err == nil {
		z.name = ifi.Name
	}
	if len(c.byIndex) >= maxZones {
		clear(c.byIndex)
	}
	c.byIndex[index] = z
	return z.name
}

// index returns the scope of a zone, zero if there is none.
func (c *zoneCache) index(name string) uint32 {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if z, ok := c.byName[name]; ok && now.Before(z.expires) {
		return z.index
	}
	z := zone{name: name, expires: now.Add(zoneLifetime)}
	if ifi, err := net.InterfaceByName(name); err == nil {
		z.index = uint32(ifi.Index)
	} else if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		z.index = uint32(n)
	}
	if len(c.byName) >= maxZones {
		clear(c.byName)
	}
	c.byName[name] = z
	return z.index
}
