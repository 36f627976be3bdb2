// Package child runs the server of a benchmark in a process of its own, so that what it
// uses is told apart from what its clients use.
package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
)

// Serve is the server's side: it writes hello to out, and for each line of in what mark
// returns, until in ends.
func Serve(in io.Reader, out io.Writer, hello any, mark func() any) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(hello); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := enc.Encode(mark()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A Server is a process that runs Serve.
type Server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// Start runs this program again, with env added to its environment. The program calls
// Serve then. Start decodes what the server says first into hello.
func Start(env string, hello any) (*Server, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{cmd, in, json.NewDecoder(out)}
	if err := s.out.Decode(hello); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Mark asks the server for a mark, and decodes it into m.
func (s *Server) Mark(m any) error {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return err
	}
	return s.out.Decode(m)
}

// Stop ends what the server reads, and waits for the process.
func (s *Server) Stop() error {
	s.in.Close()
	return s.cmd.Wait()
}
