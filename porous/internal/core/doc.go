// Package core is the protocol of package porous without the world around it:
// the formats, the state machine of one connection (Peer), the transfer layer
// that resends frames, and the sequencing layer with its channels. It has no
// goroutine, lock, socket or clock. It is told the time since an origin that the
// caller chose. It is given datagrams, appends datagrams to a Batch, and says when it
// next wants to be called.
//
// All platforms compute the same: a product that something is added to is
// converted to float64, which keeps compilers from fusing the two.
package core
