package registry

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type fakeNode struct {
	name   string
	closed bool
}

func (n *fakeNode) View(v *Node) bool {
	v.Name = n.name
	return !n.closed
}

// Nodes are shown until they are closed or removed, in the order in which they came.
func TestNodes(t *testing.T) {
	a, b, c := &fakeNode{name: "a"}, &fakeNode{name: "b"}, &fakeNode{name: "c"}
	for _, n := range []*fakeNode{a, b, c} {
		AddNode(n)
		defer RemoveNode(n)
	}
	names := func() (all []string) {
		for _, n := range Nodes() {
			all = append(all, n.Name)
		}
		return all
	}
	require.Equal(t, []string{"a", "b", "c"}, names())
	b.closed = true
	require.Equal(t, []string{"a", "c"}, names())
	RemoveNode(a)
	require.Equal(t, []string{"c"}, names())
}
