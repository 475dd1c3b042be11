package decode

import (
	"strings"
	"testing"

	"endoscope/probes/recall"
)

// At a gap, the return of a call under way may not be recorded. That it was left without
// returning is then not told, of calls before the first event neither. Everything else is.
func TestRecalledCallsAcrossGaps(t *testing.T) {
	for _, c := range []struct {
		events string // an initial and a function each, at the times 1, 2, ...
		gaps   []uint64
		told   string
	}{
		{"Ea Eb Lb La", nil, "Ea Eb Lb La"},
		{"Ea Eb Ub Ua", nil, "Ea Eb Ub Ua"},
		{"Ub Ea La Uc", nil, "Ub Ea La Uc"},
		{"Ea Eb Ub La", []uint64{3}, "Ea Eb La"},
		{"Ea Eb Ub La", []uint64{2}, "Ea Eb Ub La"}, // b began after it
		{"Ea Eb Lb Ec Uc Ua", []uint64{4}, "Ea Eb Lb Ec Uc"},
		{"Ea Gz Ea Ua Ua", []uint64{2, 9}, "Ea Gz Ea Ua"},
		{"Ub La Ec Uc", []uint64{1}, "La Ec Uc"},
		{"Ea Eb La Eb Ub Ub", []uint64{3}, "Ea Eb La Eb Ub"}, // the return of the first b is missing
	} {
		open := openCalls{gaps: c.gaps}
		var told []string
		for i, e := range strings.Fields(c.events) {
			if open.follow(&recall.Event{Time: uint64(1 + i), Function: uint32(e[1]-'a') | uint32(e[0])<<24}) {
				told = append(told, e)
			}
		}
		if got := strings.Join(told, " "); got != c.told {
			t.Errorf("%s with gaps at %v: %s, want %s", c.events, c.gaps, got, c.told)
		}
	}
}
