package netcode

import "time"

// Whether a request is authentic shows only once its token is opened, which costs more than
// all else that a stranger can ask for. So requests get a part of one processor, and the
// others are dropped before they are opened. Clients ask again.
const (
	// requestShare is that part, one in so many.
	requestShare = 4
	// requestBurst is how much they take at once, as when many clients come together.
	requestBurst = 50 * time.Millisecond
	// requestMost is the most that a request counts as: a goroutine that has had to wait
	// for a processor has not worked meanwhile.
	requestMost = 100 * time.Microsecond
)

// An allowance is the time that may be spent on requests.
type allowance struct {
	spent time.Duration // less what they are due since
	at    time.Duration // when spent was reckoned
}

// may reports whether a request may be looked at.
func (a *allowance) may(now time.Duration) bool {
	due := (now - a.at) / requestShare
	a.spent = max(0, a.spent-due)
	a.at += due * requestShare
	return a.spent < requestBurst
}

func (a *allowance) took(d time.Duration) { a.spent += min(d, requestMost) }
