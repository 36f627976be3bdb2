// Package fleet joins servers of package secure on several machines, so that a client whose
// server dies or is drained goes on at another one. A node of a fleet has a server of NATS in it,
// or uses a cluster that is there:
//
//	node, err := fleet.Join(ctx, &fleet.Config{
//		Name:    "eu-1",
//		KeyFile: "fleet.key",
//		Cluster: ":6222",
//		Routes:  []string{"eu-2.example:6222", "eu-3.example:6222"},
//	})
//	ln, err := node.Listen("udp", ":7777", &secure.ListenConfig{Public: public})
//	vl, err := volley.NewListener(ln, nil)
//	…
//	err = node.Drain(ctx) // on SIGTERM: the clients go to other nodes
//	err = node.Close()
//
// Each client holds a spare token for its node and one for another node. The other node has
// sealed it under its own key, so that nodes share no key of tokens. At the client
// [secure.Conn.Next] returns the session that follows:
//
//	c, err := secure.Dial(ctx, url)
//	for err == nil {
//		talk(c) // until Read fails
//		c, err = c.Next(ctx)
//	}
//
// # What nodes know of each other
//
// Every node announces its sessions to all nodes, and five times a second that it is alive.
// Nothing of that is stored. A session is at the node with its highest generation; other nodes
// that have it end theirs. While the network between nodes is cut, a client can be at two nodes.
// Within a second after it is whole again, it is at one.
//
// # Security
//
// The nodes have one key in common: [Config].KeyFile. By it they know each other, and clients know
// them. A thief of the key can pass for a node. Between servers of NATS there is always TLS, with that
// key at both ends. Messages between nodes are sealed in an account of NATS that the application's
// connection, [Node.NATS], does not reach; tokens in them are sealed once more, for the node that
// has asked.
package fleet
