package batch

import (
	"sync"

	"endoscope/planner/types"
)

// Pool reuses batches of one schema, so that a steady stream allocates nothing per batch.
// The dictionaries of Varchar columns are shared by all batches of the pool and belong to
// the one goroutine that fills them.
type Pool struct {
	schema []types.Type
	dicts  []*Dict
	fixed  []bool // by column: its dictionary is never replaced
	share  int    // by which DictLimit is divided
	free   sync.Pool
}

// NewPool returns a pool of batches with columns of the given types.
func NewPool(s []types.Type) *Pool {
	p := &Pool{schema: s, dicts: make([]*Dict, len(s)), fixed: make([]bool, len(s)), share: max(1, len(s)/wide)}
	for i, t := range s {
		if t.Physical() == types.PhysCode {
			p.dicts[i] = NewDict()
		}
	}
	return p
}

// Dict returns the dictionary of column i, or nil if it has none.
func (p *Pool) Dict(i int) *Dict { return p.dicts[i] }

// Fix prevents the replacement of the dictionary of column i, because its codes are used
// before there are rows.
func (p *Pool) Fix(i int) { p.fixed[i] = true }

// DictLimit is the number of strings after which a dictionary is replaced: texts, names and
// identifiers of observed programs are unbounded. Those of many columns are smaller.
const DictLimit = 1 << 16

// Seal completes b, a batch of the pool, so that others can read its codes. Dictionaries
// above the limit are replaced for later batches.
func (p *Pool) Seal(b *Batch) {
	for i := range b.Cols {
		c := &b.Cols[i]
		if c.Dict == nil {
			continue
		}
		c.Values = c.Dict.Values()
		if c.Dict.Len() > DictLimit/p.share && c.Dict == p.dicts[i] && !p.fixed[i] {
			p.dicts[i] = NewDict()
		}
	}
}

// Get returns an empty batch owned by the caller, with one reference.
func (p *Pool) Get() *Batch {
	b, _ := p.free.Get().(*Batch)
	if b == nil {
		b = newBatch(p.schema)
		b.pool = p
	}
	for i := range b.Cols {
		b.Cols[i].Reset()
		b.Cols[i].Dict = p.dicts[i]
	}
	b.N, b.Sel = 0, nil
	b.refs.Store(1)
	return b
}

func (p *Pool) put(b *Batch) { p.free.Put(b) }
