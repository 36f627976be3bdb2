//go:build !linux

package main

// gsoPeers exist on Linux only.
var gsoPeers []*peer
