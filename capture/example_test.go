package capture_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"volley"
	"volley/capture"
)

// A ring keeps the newest of all connections of a program. It is written when
// something went wrong, and read by tools.
func Example() {
	recorder, err := capture.NewRecorder(&capture.Config{Ring: true, MaxBytes: 1 << 20, OmitPayload: true})
	if err != nil {
		panic(err)
	}
	a, b := volley.Pipe(&volley.Config{Capture: recorder})
	defer a.Close()
	defer b.Close()
	a.Write([]byte("hello"))

	name := filepath.Join(os.TempDir(), "volley-example.vcap")
	defer os.Remove(name)
	f, err := os.Create(name)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	recorder.WriteTo(f)

	f.Seek(0, io.SeekStart)
	r, err := capture.NewReader(f)
	if err != nil {
		panic(err)
	}
	for {
		record, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err)
		}
		for _, p := range record.Packets {
			if p.Sent && record.Kind == "send" {
				fmt.Printf("%s sends a message of %d bytes\n", record.Conn.Local, p.Size-len(p.Data))
			}
		}
	}
	// Output: a sends a message of 5 bytes
}
