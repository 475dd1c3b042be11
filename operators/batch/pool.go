package batch

import "sync"

// Pool reuses batches of one schema, so that a steady stream allocates
// nothing per batch. The dictionaries of Varchar columns are shared by all
// batches of the pool and belong to the one goroutine that fills them.
type Pool struct {
	schema Schema
	dicts  []*Dict
	free   sync.Pool
}

// NewPool returns a pool of batches with columns of the given types.
func NewPool(s Schema) *Pool {
	p := &Pool{schema: s, dicts: make([]*Dict, len(s))}
	for i, t := range s {
		if t.Physical() == PhysCode {
			p.dicts[i] = NewDict()
		}
	}
	return p
}

// Dict is the dictionary of column i, or nil if it has none.
func (p *Pool) Dict(i int) *Dict { return p.dicts[i] }

// Renew gives column i, one of strings, a new dictionary: batches that Get returns
// from now on have it. Those that it has returned keep the old one.
func (p *Pool) Renew(i int) { p.dicts[i] = NewDict() }

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
