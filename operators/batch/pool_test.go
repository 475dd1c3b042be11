package batch

import "testing"

// A column's new dictionary is that of the batches to come; who holds an earlier
// one still has its strings.
func TestPoolRenews(t *testing.T) {
	p := NewPool(Schema{Varchar, Varchar})
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
