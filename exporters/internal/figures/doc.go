// Package figures is what the exporters have in common: it makes the figures of a
// process out of a snapshot of its listeners and connections, under the names that
// a monitoring system stores them by. Each belongs to a listener, never to a peer:
// so their number stays small, however many connections come and go.
package figures
