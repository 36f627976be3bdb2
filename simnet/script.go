package simnet

import (
	"net/netip"
	"slices"
	"time"
)

// A Step changes links of a network for a while.
type Step struct {
	// From and To limit the step to links from and to these hosts. The zero
	// Addr stands for all hosts.
	From, To netip.Addr
	// At is when the change begins, counted from the call of Play.
	At time.Duration
	// For is how long it lasts. Zero or less: for good.
	For time.Duration
	// Set makes the change in the description of a link. It is called more
	// than once, must not depend on anything but its argument, and must not
	// call methods of the Network. A step with a nil Set does nothing.
	Set func(*Link)
}

// A Script is a list of changes over time, in any order.
type Script []Step

// An activeStep is a step that has been scheduled.
type activeStep struct {
	hosts linkKey
	set   func(*Link)
}

// concerns reports whether the step changes the links between two hosts.
func (s *activeStep) concerns(hosts linkKey) bool {
	from, to := s.hosts.from, s.hosts.to
	return (!from.IsValid() || from == hosts.from) && (!to.IsValid() || to == hosts.to)
}

// Play schedules the steps of a script, counted from now. A step applies on top
// of what SetLink and SetDefault say and of the steps that began before it; when
// it ends, the links are as if it had never been.
func (n *Network) Play(s Script) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	now := n.now()
	for _, step := range s {
		if step.Set == nil {
			continue
		}
		active := &activeStep{hosts: hostKey(step.From, step.To), set: step.Set}
		n.schedule(event{at: now + step.At, step: active, begin: true})
		if step.For > 0 {
			n.schedule(event{at: now + step.At + step.For, step: active})
		}
	}
	n.deliverDue(now)
	n.arm(now)
}

// At calls f in a goroutine of its own once d has passed from now, unless the
// network is closed before. Calls are made one after the other, and what is
// under way may have to wait for them, so f should be short.
func (n *Network) At(d time.Duration, f func(*Network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	now := n.now()
	n.schedule(event{at: now + d, call: f})
	n.arm(now)
}

// on returns the script with its steps limited to the links between two hosts.
func (s Script) on(from, to netip.Addr) Script {
	s = slices.Clone(s)
	for i := range s {
		s[i].From, s[i].To = from, to
	}
	return s
}

func (n *Network) schedule(e event) {
	e.index = n.counter
	n.counter++
	n.events.push(e)
}

// runStep begins or ends a step.
func (n *Network) runStep(e *event) {
	if e.begin {
		n.steps = append(n.steps, e.step)
	} else {
		n.steps = slices.DeleteFunc(n.steps, func(s *activeStep) bool { return s == e.step })
	}
	n.version++
}
