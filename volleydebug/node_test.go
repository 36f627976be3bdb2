package volleydebug_test

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/registry"
	"volley/volleydebug"
)

// A fleetNode stands for one of package fleet.
type fleetNode struct{}

func (*fleetNode) View(n *registry.Node) bool {
	*n = registry.Node{
		Name: "eu-1", Sessions: 1, Spared: 2, Load: math.Inf(1), Drains: true, Came: 3, Left: 4, Yielded: 5,
		Given: 6, Sealed: 7, Refused: 8, Bad: 9, Missed: 10,
		Peers: []registry.Peer{{Name: "eu-2", Sessions: 11, Load: 12.5, Alive: true, Heard: 1300 * time.Microsecond}},
	}
	return true
}

// Nodes of a fleet are in a snapshot, in JSON and in the events for the page.
func TestNodes(t *testing.T) {
	n := new(fleetNode)
	registry.AddNode(n)
	defer registry.RemoveNode(n)
	require.Equal(t, []volleydebug.Node{{
		Name: "eu-1", Sessions: 1, Spared: 2, Load: math.Inf(1), Drains: true, Came: 3, Left: 4, Yielded: 5,
		Given: 6, Sealed: 7, Refused: 8, Bad: 9, Missed: 10,
		Peers: []volleydebug.Peer{{Name: "eu-2", Sessions: 11, Load: 12.5, Alive: true, Heard: 1300 * time.Microsecond}},
	}}, volleydebug.Snapshot().Nodes)
	const want = `[{"name":"eu-1","sessions":1,"load":null,"drains":true,"spared":2,"came":3,"left":4,"yielded":5,
		"given":6,"sealed":7,"refused":8,"bad":9,"missed":10,
		"peers":[{"name":"eu-2","sessions":11,"load":12.5,"drains":false,"alive":true,"heard_ms":1}]}]`
	var answer struct{ Nodes json.RawMessage }
	h := (&volleydebug.Config{}).Handler()
	require.NoError(t, json.Unmarshal(get(h, "/json", nil).Body.Bytes(), &answer))
	require.JSONEq(t, want, string(answer.Nodes))
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close) // after the end of the stream
	next, status := stream(t, srv.URL+"/")
	require.Equal(t, 200, status)
	require.JSONEq(t, want, string(next().Nodes))
}
