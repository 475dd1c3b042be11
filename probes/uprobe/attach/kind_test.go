package attach

import (
	"testing"
)

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		release, version string
		older            bool
	}{
		{"6.9.12-generic", "6.10", true},
		{"6.10.0-rc1", "6.10", false},
		{"6.18.44", "6.10", false},
		{"7.0", "6.10", false},
		{"5.15", "6.6", true},
		{"", "6.6", true},
		{"unknown", "6.6", true},
	} {
		if got := OlderThan(c.release, c.version); got != c.older {
			t.Errorf("%q is older than %s: %v", c.release, c.version, got)
		}
	}
}
