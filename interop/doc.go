// Package interop holds tests only: programs of others, unchanged, that run
// over volley in place of a UDP socket. README.md says which, and which cannot.
package interop
