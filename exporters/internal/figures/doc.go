// Package figures makes metrics for the exporters from a snapshot of the listeners and
// connections of a process. Each belongs to a listener, never to a peer, so their
// number stays small.
package figures
