package clock

import (
	"testing"
	"time"
)

// TestNowAgreesWithTheWallClock compares with the wall clock, assuming that it
// is not set during the test.
func TestNowAgreesWithTheWallClock(t *testing.T) {
	for range 1000 {
		before := time.Now().UnixNano()
		now := Now()
		after := time.Now().UnixNano()
		// The offset was determined within a few hundred ns, and NTP may slew.
		const slack = int64(10 * time.Millisecond)
		if now < before-slack || now > after+slack {
			t.Fatalf("%d is not between %d and %d", now, before, after)
		}
	}
}

func TestNeverBackwards(t *testing.T) {
	last := Now()
	for range 100_000 {
		now := Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}
