package reliable

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocumentedBytes checks the examples of docs/reliable.md.
func TestDocumentedBytes(t *testing.T) {
	doc, err := os.ReadFile("../docs/reliable.md")
	if err != nil {
		t.Fatal(err)
	}
	var out Batch
	e, _ := newEndpoint(nil, testTime(0), nil)
	mustSend(t, e, testTime(0), []byte("hi"), &out)
	e, _ = newEndpoint(&Config{FragmentAbove: 4, FragmentSize: 4, MaxPacketSize: 16}, testTime(0), nil)
	mustSend(t, e, testTime(0), []byte("fragments"), &out)
	for _, h := range []Header{{1000, 900, 0xffffffff}, {1000, 900, 0xfffffffb}, {5, 65000, 0x101}} {
		out.Append(AppendHeader(nil, h))
	}
	for i := range out.Len() {
		if line := fmt.Sprintf("\n    % x\n", out.At(i)); !strings.Contains(string(doc), line) {
			t.Errorf("docs/reliable.md has no example%s", line)
		}
	}
	if n := strings.Count(string(doc), "\n    "); n != out.Len() {
		t.Errorf("docs/reliable.md has %d lines of examples, %d are checked", n, out.Len())
	}
}
