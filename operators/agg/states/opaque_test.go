package states

import (
	"encoding/binary"
	"runtime"
	"testing"

	"endoscope/planner/types"
)

// Memory is not allocated for the stated lengths of nested lists whose values are not in the
// state.
func TestClaimedListsAreNotAllocated(t *testing.T) {
	const size = 1 << 20
	state := make([]byte, 0, size)
	for range maxStateDepth + 1 {
		state = append(binary.AppendUvarint(state, size-1<<10), byte(types.List))
	}
	state = state[:size] // the remaining bytes are zero: NULLs, or invalid
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := Reader{B: state}
	s.Value(types.List, 0)
	runtime.ReadMemStats(&after)
	if !s.Bad {
		t.Error("the state is read")
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 512*size {
		t.Errorf("%d bytes are allocated for a state of %d", n, size)
	}
}
