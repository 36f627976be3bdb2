package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A process runs one part of a job. Each run has processes of its own, so that
// nothing of one run is left in the next.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func startProcess(ctx context.Context, j *job, bell *os.File, attr *syscall.SysProcAttr) (*process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	if j.Network != "" {
		cmd = exec.CommandContext(ctx, "ip", "netns", "exec", j.Network, exe)
		cmd.Env = append(os.Environ(), jobEnv+"="+string(text), listenEnv+"="+vethServer)
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	if bell != nil {
		cmd.ExtraFiles = []*os.File{bell}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// result waits for the end of the process.
func (p *process) result() (*result, error) {
	p.in.Close()
	r := new(result)
	err := json.NewDecoder(p.out).Decode(r)
	waitErr := p.cmd.Wait()
	if err := errors.Join(err, waitErr); err != nil {
		return nil, err // a process that the race detector complains of ends with an error, too
	}
	return r, nil
}

// runJob does a job in one or two processes.
func runJob(j job, processes int) (*result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), j.Warmup+j.Duration+jobMargin)
	defer cancel()
	if processes == 1 {
		j.Role = roleBoth
		p, err := startProcess(ctx, &j, nil, nil)
		if err != nil {
			return nil, err
		}
		return p.result()
	}
	if j.Rate > 0 && j.Networks == nil {
		return runInNetwork(ctx, j)
	}
	return runPair(ctx, j)
}

// networkEnv is the environment variable that tells processes that the network
// is theirs alone.
const networkEnv = "VOLLEY_BENCH_NETWORK"

// runInNetwork does a job in two processes that have a network of their own, where
// the datagrams can be counted. Where there is none to be had it does so in that
// of the machine.
func runInNetwork(ctx context.Context, j job) (*result, error) {
	attr := ownNetwork()
	if attr == nil {
		return runPair(ctx, j)
	}
	j.Role = rolePair
	p, err := startProcess(ctx, &j, nil, attr)
	if err != nil {
		return runPair(ctx, j)
	}
	r, err := p.result()
	if err == nil && r.NoNetwork {
		return runPair(ctx, j)
	}
	return r, err
}

// runAlone is the process in a network of its own that starts the other two.
func runAlone(j *job, _ *peer) (*result, error) {
	if err := startLoopback(); err != nil {
		return &result{NoNetwork: true}, nil
	}
	if err := errors.Join(os.Unsetenv(jobEnv), os.Setenv(networkEnv, "own")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Warmup+j.Duration+jobMargin-5*time.Second)
	defer cancel()
	return runPair(ctx, *j)
}

// jobMargin is how long a run may take beside what it measures.
const jobMargin = 60 * time.Second

// runPair does a job with the server in one process and the clients in another.
func runPair(ctx context.Context, j job) (*result, error) {
	name, err := newBoardFile()
	if err != nil {
		return nil, err
	}
	defer os.Remove(name)
	j.Board = name
	bellOut, bellIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer bellOut.Close()
	defer bellIn.Close()

	serverJob := j
	serverJob.Role = roleServer
	if j.Networks != nil {
		serverJob.Network, j.Network = j.Networks[0], j.Networks[1]
	}
	server, err := startProcess(ctx, &serverJob, bellIn, nil)
	if err != nil {
		return nil, err
	}
	addr, err := server.out.ReadString('\n')
	if err != nil || strings.HasPrefix(addr, "{") {
		return nil, fmt.Errorf("server: %s: %w", addr, errors.Join(err, server.cmd.Wait()))
	}
	j.Role, j.Addr = roleClient, strings.TrimSpace(addr)
	client, err := startProcess(ctx, &j, bellOut, nil)
	if err != nil {
		return nil, err
	}
	r, err := client.result()
	s, serverErr := server.result()
	if err := errors.Join(err, serverErr); err != nil {
		return nil, err
	}
	r.merge(s)
	return r, nil
}
