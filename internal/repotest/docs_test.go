package repotest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"volley/internal/loopback"
)

// A goBlock is a Go block of a document, with the comment before it.
type goBlock struct {
	doc, kind, arg, code string
}

// source returns a block that is part of a file as a package of its own.
func (b goBlock) source(number int) string {
	code := fmt.Sprintf("package x%d\n\n", number)
	for _, im := range strings.Fields(b.arg) {
		code += fmt.Sprintf("import %q\n", im)
	}
	return code + "\n" + b.code
}

var goBlockPattern = regexp.MustCompile("(?s)<!-- (file|imports): ([^\n]*) -->\n\n```go\n(.*?)```\n")

func goBlocks(t *testing.T, docs ...string) (all []goBlock) {
	t.Helper()
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		found := goBlockPattern.FindAllStringSubmatch(string(text), -1)
		if n := strings.Count(string(text), "```go\n"); n != len(found) {
			t.Errorf("%s has %d Go blocks, of which %d say in a comment what they are", doc, n, len(found))
		}
		for _, m := range found {
			all = append(all, goBlock{doc, m[1], m[2], m[3]})
		}
	}
	return all
}

// shBlock returns the first shell block of a document that begins with a line.
func shBlock(t *testing.T, doc, first string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```sh\n"+first)
	if !ok {
		t.Fatalf("%s has no block that begins with %q", doc, first)
	}
	block, _, _ := strings.Cut(rest, "```\n")
	return strings.Split(strings.TrimSpace(first+block), "\n")
}

// scratch returns a function that runs commands of the documents, with the
// repository in the place of ../volley, in a new folder.
func scratch(t *testing.T) (dir string, run func(command string) string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the go command")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	return dir, func(command string) string {
		t.Helper()
		command, _, _ = strings.Cut(command, " #")
		args := strings.Fields(strings.ReplaceAll(command, "../volley", root))
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=")
		if strings.Contains(command, "-C ") {
			cmd.Env = os.Environ()
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestExporterRecipe: what docs/observability.md says of go.mod names each exporter,
// and the library, where they are.
func TestExporterRecipe(t *testing.T) {
	atRoot(t)
	_, run := scratch(t)
	run("go mod init example.com/game")
	for _, command := range shBlock(t, "docs/observability.md", "go mod edit") {
		if !strings.HasPrefix(command, "go mod tidy") { // which asks a proxy for the exporters' dependencies
			run(command)
		}
	}
	var mod struct {
		Require []struct{ Path string }
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal([]byte(run("go mod edit -json")), &mod); err != nil {
		t.Fatal(err)
	}
	required, replaced := map[string]bool{}, map[string]string{}
	for _, r := range mod.Require {
		required[r.Path] = true
	}
	for _, r := range mod.Replace {
		replaced[r.Old.Path] = r.New.Path
	}
	for _, path := range []string{module, "volley/exporters/volleyprom", "volley/exporters/volleyotel"} {
		there, err := os.ReadFile(filepath.Join(replaced[path], "go.mod")) // in place of ../volley: absolute
		if err != nil || !required[path] || !strings.HasPrefix(string(there), "module "+path+"\n") {
			t.Errorf("%s: required %v, replaced by %q, error %v", path, required[path], replaced[path], err)
		}
	}
}

// TestNewcomer does what docs/secure.md says, from an empty folder: two processes
// that talk encrypted, with at most 25 lines of code and within two minutes.
func TestNewcomer(t *testing.T) {
	atRoot(t)
	begin := time.Now()
	dir, run := scratch(t)
	for i, b := range goBlocks(t, "docs/secure.md") {
		if b.kind == "file" {
			lines := regexp.MustCompile(`(?m)^.*\S.*$`).FindAllString(b.code, -1)
			if len(lines) > 25 {
				t.Errorf("%s has %d lines, want at most 25", b.arg, len(lines))
			}
			// A port that is free, in place of the one that people remember.
			write(t, filepath.Join(dir, b.arg), strings.Replace(b.code, `":7777"`, `"127.0.0.1:0"`, 1))
			continue
		}
		write(t, filepath.Join(dir, fmt.Sprintf("x%d", i), "x.go"), b.source(i))
	}
	commands := shBlock(t, "docs/secure.md", "go mod init")
	for _, command := range commands[:4] {
		run(command)
	}
	run("go vet ./...")

	server := exec.CommandContext(t.Context(), filepath.Join(dir, "hello"))
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.Replace(strings.TrimSpace(url), "localhost", "127.0.0.1", 1)
	if answer := run(filepath.Join(dir, "hello") + " " + url); answer != "hello\n" {
		t.Errorf("the client prints %q", answer)
	}
	if d := time.Since(begin); d > 2*time.Minute {
		t.Errorf("it took %v, want at most 2 minutes", d)
	}
}

// TestGuide follows the guide in a module of its own: all its Go code compiles
// there with the README's recipe, the client talks to the server, and the command
// line tool runs.
func TestGuide(t *testing.T) {
	atRoot(t)
	dir, run := scratch(t)
	run("go mod init example.com/game")
	for i, b := range goBlocks(t, "README.md", "docs/guide.md", "docs/operations.md", "docs/observability.md") {
		if b.kind == "file" {
			write(t, filepath.Join(dir, b.arg), b.code)
			continue
		}
		write(t, filepath.Join(dir, fmt.Sprintf("x%d", i), "x.go"), b.source(i))
	}
	for _, command := range shBlock(t, "README.md", "go mod edit") {
		run(command)
	}
	run("go vet ./...")

	talk := shBlock(t, "docs/guide.md", "go run ./server")
	run("go build -o bin/ ./server ./client")
	program := func(name string) string {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		return filepath.Join(dir, "bin", name)
	}
	checkUnheard := tryUnheard(t, program("client"))
	server := exec.CommandContext(t.Context(), program("server"), "127.0.0.1:0")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("the server says %q, error %v", line, err)
	}
	answer := run(strings.Replace(talk[1], "localhost:7777", addr, 1))
	if !strings.HasPrefix(answer, `you said "hello", after `) {
		t.Errorf("the client says %q", answer)
	}

	checkUnheard()

	tool := shBlock(t, "docs/guide.md", "go -C ../volley/cmd/volley run .")
	if out := run(tool[0]); !strings.Contains(out, "volley") {
		t.Errorf("%s prints %q", tool[0], out)
	}
}

// tryUnheard has a client talk to a port where nobody listens, and returns what
// checks that it went on trying, though the system says each time that the
// connection is refused.
func tryUnheard(t *testing.T, client string) (check func()) {
	l, err := net.ListenPacket("udp", loopback.Addr()) // where the port stays free
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cmd := exec.CommandContext(t.Context(), client, l.LocalAddr().String())
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "no answer") {
			t.Errorf("a client to whom nobody listens ends with %v, and says %q", err, out.String())
		}
	}
}
