package browsertest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The service of somebody who has not heard of the debug page, and the three lines
// that it takes.
const (
	service = `package main

import (
	"fmt"
	"log"

	"volley"
)

func main() {
	l, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	c, err := volley.Dial("udp", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			fmt.Fprint(c, "hello")
			if _, err := c.Read(make([]byte, 10)); err != nil {
				return
			}
		}
	}()
	s, err := l.Accept()
	if err != nil {
		log.Fatal(err)
	}
	for buf := make([]byte, 10); ; {
		n, err := s.Read(buf)
		if err != nil {
			log.Fatal(err)
		}
		s.Write(buf[:n])
	}
}
`
	line1 = "\t\"net/http\"\n"
	line2 = "\t\"volley/volleydebug\"\n"
	line3 = "\tgo http.ListenAndServe(\"localhost:6060\", volleydebug.Handler())\n"
)

// From an empty module to the first point on the live graph: a service is written,
// built, given the three lines, and looked at. How long that takes is logged.
func TestThreeLines(t *testing.T) {
	chromium(t)
	start := time.Now()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	build := func() {
		for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", "service", "."}} {
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "go %v: %s", args, out)
		}
	}
	write("go.mod", "module service\n\ngo 1.26.0\n\nrequire volley v0.0.0\n\nreplace volley => "+root+"\n")
	sums, err := os.ReadFile(filepath.Join(root, "go.sum")) // so that nobody has to be asked for them
	require.NoError(t, err)
	write("go.sum", string(sums))
	write("main.go", service)
	build()

	before := strings.Count(service, "\n")
	debugged := strings.Replace(service, "\t\"log\"\n", "\t\"log\"\n"+line1, 1)
	debugged = strings.Replace(debugged, "\t\"volley\"\n", "\t\"volley\"\n"+line2, 1)
	debugged = strings.Replace(debugged, "func main() {\n", "func main() {\n"+line3, 1)
	require.Equal(t, before+3, strings.Count(debugged, "\n"))
	// The port of the example may be taken here, so the system chooses one.
	debugged = strings.Replace(debugged, "go http.ListenAndServe(\"localhost:6060\", ", "go serve(", 1)
	write("serve.go", `package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
)

func serve(h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + l.Addr().String() + "/")
	log.Fatal(http.Serve(l, h))
}
`)
	debugged = strings.Replace(debugged, line1, "", 1)
	write("main.go", debugged)
	build()

	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "service"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	p := open(t, lines.Text(), false, 1200, 700)
	p.await(t, "document.body.dataset.conns === '2' && charts.plots[0].plot.data[1].some(v => v > 0)")
	p.clean(t)
	t.Logf("from an empty module to the first point on the graph in %.1f s", time.Since(start).Seconds())
}
