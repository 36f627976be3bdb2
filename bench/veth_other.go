//go:build !linux

package main

import "errors"

const vethServer = ""

type veth struct{ server, client, about string }

func newVeth(bool) (*veth, error) { return nil, errors.ErrUnsupported }
func (*veth) close()              {}

const groEnv = "VOLLEY_BENCH_GRO"

func setGRO(bool) error { return errors.ErrUnsupported }
