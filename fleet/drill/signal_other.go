//go:build !unix

package main

import "errors"

// stop has a process stand still, until goOn.
func (p *process) stop() error { return errors.ErrUnsupported }

func (p *process) goOn() error { return errors.ErrUnsupported }
