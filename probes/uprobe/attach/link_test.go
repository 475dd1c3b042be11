package attach

import (
	"errors"
	"slices"
	"testing"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"pgregory.net/rapid"
)

// culprit finds a refused site among any number of good ones.
func TestCulpritFindsTheRefusedSite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "sites")
		bad := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(n, 4), rapid.ID).Draw(t, "refused")
		reason := errors.New("refused")
		i, err := RefusedSite(func(lo, hi int) error {
			if slices.ContainsFunc(bad, func(b int) bool { return lo <= b && b < hi }) {
				return reason
			}
			return nil
		}, n)
		if len(bad) == 0 {
			if i != -1 || err != nil {
				t.Fatalf("found %d, %v where all are good", i, err)
			}
			return
		}
		if !slices.Contains(bad, i) || err != reason {
			t.Fatalf("found %d, %v; refused are %v", i, err, bad)
		}
	})
}
