package simnet

import (
	"net/netip"
	"slices"
	"time"
)

// A Step of a script changes links of a network for a while.
type Step struct {
	// From and To limit the step to links from and to these hosts. The zero
	// Addr means all hosts.
	From, To netip.Addr
	// At is when the change begins, counted from the call of Play.
	At time.Duration
	// For is how long it lasts. Zero or less: for good.
	For time.Duration
	// Set makes the change. It may be called several times, must depend on its
	// argument alone, and must not call methods of the Network. Nil does nothing.
	Set func(*Link)
}

// An activeStep is a step that has been scheduled.
type activeStep struct {
	hosts linkKey
	set   func(*Link)
}

func (s *activeStep) concerns(hosts linkKey) bool {
	from, to := s.hosts.from, s.hosts.to
	return (!from.IsValid() || from == hosts.from) && (!to.IsValid() || to == hosts.to)
}

// Play schedules the steps of a script, in any order, counted from now. A step
// changes links on top of SetLink, SetDefault and the steps that began before it.
// When it ends, the links are as if it had never been.
func (n *Network) Play(script []Step) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	now := n.now()
	for _, step := range script {
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

func (n *Network) schedule(e event) {
	e.index = n.counter
	n.counter++
	n.events.push(e)
}

func (n *Network) runStep(e *event) {
	if e.begin {
		n.steps = append(n.steps, e.step)
	} else {
		n.steps = slices.DeleteFunc(n.steps, func(s *activeStep) bool { return s == e.step })
	}
	n.version++
}
