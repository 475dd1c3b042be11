package main

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server/pse"
)

// TestNATSUsage: nats-server has no file any more in which to read the usage of this process each
// second.
func TestNATSUsage(t *testing.T) {
	var cpu float64
	var rss, vss int64
	if err := pse.ProcUsage(&cpu, &rss, &vss); err == nil {
		t.Errorf("read: %g %% of a CPU, %d and %d bytes", cpu, rss, vss)
	}
}
