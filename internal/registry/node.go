package registry

import (
	"slices"
	"sync"
	"time"
)

// A Node is how a member of a fleet stands. The fields are explained at volleydebug.Node, which
// has the same.
type Node struct {
	Name                   string
	Sessions, Spared       int
	Load                   float64
	Drains                 bool
	Came, Left, Yielded    uint64
	Given, Sealed, Refused uint64
	Bad, Missed            uint64
	Peers                  []Peer
}

// A Peer is another node. The fields are explained at volleydebug.Peer, which has the same.
type Peer struct {
	Name          string
	Sessions      int
	Load          float64
	Drains, Alive bool
	Heard         time.Duration
}

// A NodeViewer is a node that can be looked at. Its method may be called at any time, and returns
// false if the node is closed.
type NodeViewer interface {
	View(*Node) bool
}

// nodes are few, and there is a goroutine for each anyway. So the pointers are not weak.
var nodes struct {
	mu  sync.Mutex
	all []NodeViewer
}

// AddNode adds a node until RemoveNode.
func AddNode(v NodeViewer) {
	nodes.mu.Lock()
	defer nodes.mu.Unlock()
	nodes.all = append(nodes.all, v)
}

// RemoveNode removes a node.
func RemoveNode(v NodeViewer) {
	nodes.mu.Lock()
	defer nodes.mu.Unlock()
	nodes.all = slices.DeleteFunc(nodes.all, func(x NodeViewer) bool { return x == v })
}

// Nodes looks at the nodes.
func Nodes() (all []Node) {
	nodes.mu.Lock()
	viewers := slices.Clone(nodes.all)
	nodes.mu.Unlock()
	for _, v := range viewers {
		var n Node
		if v.View(&n) {
			all = append(all, n)
		}
	}
	return all
}
