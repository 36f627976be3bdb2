package world

import (
	"fmt"
	"os"
)

var debug = os.Getenv("WORLD_DEBUG") != ""

func (b *book) trace(format string, args ...any) {
	if debug {
		fmt.Printf("%v: %s\n", b.now(), fmt.Sprintf(format, args...))
	}
}
