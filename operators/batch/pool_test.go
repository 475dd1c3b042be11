package batch

import (
	"strconv"
	"testing"

	"endoscope/planner/types"
)

// A column's new dictionary is that of the batches to come; who holds an earlier
// one still has its strings.
func TestPoolRenews(t *testing.T) {
	p := NewPool([]types.Type{types.Varchar, types.Varchar})
	old := p.Get()
	old.Cols[0].Code = append(old.Cols[0].Code, old.Cols[0].Dict.Code("before"))
	p.Renew(0)
	next := p.Get()
	if next.Cols[0].Dict == old.Cols[0].Dict || next.Cols[0].Dict != p.Dict(0) || p.Dict(0).Len() != 0 {
		t.Error("the dictionary is not a new one")
	}
	if next.Cols[1].Dict != old.Cols[1].Dict {
		t.Error("so is another column's")
	}
	if got := old.Cols[0].Dict.Values()[old.Cols[0].Code[0]]; got != "before" {
		t.Errorf("the old dictionary has %q", got)
	}
}

// What is sealed can be read; texts without end do not stay for ever.
func TestPoolSeals(t *testing.T) {
	p := NewPool([]types.Type{types.Varchar, types.Bigint, types.Varchar})
	fill := func(n int) *Batch {
		b := p.Get()
		for i := range n {
			b.Cols[0].Code = append(b.Cols[0].Code, b.Cols[0].Dict.Code(strconv.Itoa(i)))
			b.Cols[2].Code = append(b.Cols[2].Code, b.Cols[2].Dict.Code("same"))
		}
		p.Seal(b)
		return b
	}
	small := fill(10)
	if small.Cols[0].Values[small.Cols[0].Code[9]] != "9" || p.Dict(0) != small.Cols[0].Dict {
		t.Error("ten strings: not to be read, or not with the dictionary they had")
	}
	large := fill(DictLimit + 1)
	if large.Cols[0].Values[large.Cols[0].Code[DictLimit]] != strconv.Itoa(DictLimit) {
		t.Error("the strings of a full dictionary cannot be read")
	}
	if p.Dict(0).Len() != 0 || p.Dict(2) != large.Cols[2].Dict {
		t.Error("the full dictionary, and it alone, is to be replaced")
	}
}
