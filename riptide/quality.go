package riptide

import "math/bits"

// qualityWindow is how many messages judge the quality, and how many in a row must be poor.
const qualityWindow = 64

// A quality judges a connection by repeated sends, and by lost notify messages.
type quality struct {
	sends    [qualityWindow]uint8
	filled   int // of sends
	next     int // place in sends
	sum      int
	manyFor  int // messages in a row with too high a mean
	lost     uint64
	lossyFor int
}

// delivered takes a message's sends, and reports whether the mean is too high for too long.
func (q *quality) delivered(sends int, limit float64) (poor bool) {
	sends = min(sends, 255)
	q.sum += sends - int(q.sends[q.next])
	q.sends[q.next] = uint8(sends)
	q.next = (q.next + 1) % qualityWindow
	q.filled = min(q.filled+1, qualityWindow)
	if q.meanSends() <= limit {
		q.manyFor = 0
		return false
	}
	q.manyFor++
	return q.manyFor >= qualityWindow
}

// meanSends returns the mean number of sends of the last messages delivered.
func (q *quality) meanSends() float64 {
	if q.filled == 0 {
		return 0
	}
	return float64(q.sum) / float64(q.filled)
}

// notified takes a notify message's fate, and reports whether loss is too high for too long.
func (q *quality) notified(delivered bool, limit float64) (poor bool) {
	q.lost <<= 1
	if !delivered {
		q.lost |= 1
	}
	if q.notifyLoss() <= limit {
		q.lossyFor = 0
		return false
	}
	q.lossyFor++
	return q.lossyFor >= qualityWindow
}

// notifyLoss returns how many of the last 64 notify messages were lost, divided by 64.
func (q *quality) notifyLoss() float64 {
	return float64(bits.OnesCount64(q.lost)) / qualityWindow
}
