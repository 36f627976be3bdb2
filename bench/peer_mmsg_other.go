//go:build !linux

package main

var mmsgPeers []*peer
