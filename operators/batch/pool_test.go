package batch

import (
	"strconv"
	"testing"

	"endoscope/planner/types"
)

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
	if next := p.Get(); next.Cols[0].Dict == large.Cols[0].Dict || next.Cols[0].Dict != p.Dict(0) {
		t.Error("the next batch does not have the new dictionary")
	}
	if p.Dict(0).Len() != 0 || p.Dict(2) != large.Cols[2].Dict {
		t.Error("the full dictionary, and it alone, is to be replaced")
	}
}

// Codes that are handed out before there are rows stay valid.
func TestPoolKeepsFixedDictionaries(t *testing.T) {
	p := NewPool([]types.Type{types.Varchar})
	p.Fix(0)
	b := p.Get()
	for i := range DictLimit + 1 {
		b.Cols[0].Code = append(b.Cols[0].Code, p.Dict(0).Code(strconv.Itoa(i)))
	}
	p.Seal(b)
	if p.Dict(0) != b.Cols[0].Dict || len(b.Cols[0].Values) != DictLimit+1 {
		t.Error("it has been replaced")
	}
}
