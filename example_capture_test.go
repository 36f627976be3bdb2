package volley_test

import (
	"bytes"
	"fmt"

	"volley"
	"volley/capture"
)

// A capture of a connection is replayed into a fresh protocol core.
func ExampleReplay() {
	recorder, err := capture.NewRecorder(nil)
	if err != nil {
		panic(err)
	}
	a, b := volley.Pipe(&volley.PipeConfig{Config: &volley.Config{Capture: recorder}})
	a.Write([]byte("hello"))
	b.ReadMessage(nil)
	a.Close()
	b.Close()

	var file bytes.Buffer // in a program, a file
	recorder.WriteTo(&file)
	report, err := volley.Replay(&file)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(report.Connections), "connections, the same:", report.Same())
	// Output: 2 connections, the same: true
}
