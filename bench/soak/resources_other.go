//go:build !linux

package main

import "runtime"

// supported tells whether every address of 127.0.0.0/8 can be used.
const supported = false

func resourcesNow() resources { return resources{goroutines: runtime.NumGoroutine()} }
