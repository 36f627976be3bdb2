package main

import (
	"math/bits"
	"time"
)

const (
	subBuckets    = 64 // of each power of two: 1.6 % wide
	subBucketBits = 6
)

// A histogram counts durations with a resolution of 1.6 %. The zero value is
// empty.
type histogram struct {
	counts [(64 - subBucketBits) * subBuckets]uint32
	n      uint64
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.n++
}

func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBucketBits - 1
	return (shift+1)*subBuckets + int(v>>shift) - subBuckets
}

// valueOf returns the least duration in a bucket.
func valueOf(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/subBuckets - 1
	return time.Duration(uint64(bucket%subBuckets+subBuckets) << shift)
}

// quantile returns the duration that a share q of all do not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	for i, c := range h.counts {
		if uint64(c) > rank {
			return valueOf(i)
		}
		rank -= uint64(c)
	}
	return 0
}
