package program

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIDsAreReused(t *testing.T) {
	p := idPool{max: 3}
	take := func() (ids []uint32) {
		for {
			id, ok := p.get()
			if !ok {
				return ids
			}
			ids = append(ids, id)
		}
	}
	if diff := cmp.Diff([]uint32{0, 1, 2}, take()); diff != "" {
		t.Error(diff)
	}
	for _, id := range []uint32{2, 0, 1} {
		p.put(id)
	}
	if diff := cmp.Diff([]uint32{2, 0, 1}, take()); diff != "" {
		t.Error(diff)
	}
}
