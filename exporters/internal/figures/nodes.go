package figures

import (
	"strings"

	"volley/volleydebug"
)

// emitNodes hands out the figures of nodes of fleets. Two nodes of a process with one name are
// no fleet, and the first stands for both.
func emitNodes(nodes []volleydebug.Node, f emitter) {
	seen := make(map[string]bool)
	for i := range nodes {
		n := &nodes[i]
		name := strings.ToValidUTF8(n.Name, "?")
		if seen[name] {
			continue
		}
		seen[name] = true
		f(nodeSessions, float64(n.Sessions), name)
		f(nodeSpared, float64(n.Spared), name)
		f(nodeLoad, n.Load, name)
		alive := 0
		for _, p := range n.Peers {
			if p.Alive {
				alive++
			}
		}
		f(nodePeers, float64(alive), name, "alive")
		f(nodePeers, float64(len(n.Peers)-alive), name, "silent")
		f(nodeMoves, float64(n.Came), name, "came")
		f(nodeMoves, float64(n.Left), name, "left")
		f(nodeMoves, float64(n.Yielded), name, "yielded")
		f(nodeTokens, float64(n.Given), name, "given")
		f(nodeTokens, float64(n.Sealed), name, "sealed")
		f(nodeTokens, float64(n.Refused), name, "refused")
		f(nodeMissed, float64(n.Missed), name)
		f(nodeBad, float64(n.Bad), name)
	}
}
