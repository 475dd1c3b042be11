package uprobe

import (
	"bytes"
	"math"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
)

// partialRows makes partial rows of states. It has one user at a time.
type partialRows struct {
	code  *codegen.Aggregate
	pane  int64 // the rows' first column
	first []int // by aggregate: its first column
	width []int // and how many it has
	// labels are, for each key that the function decides, its codes by function.
	labels [][]uint32
	shares [][]share // by function with a probe; nil where nothing is inferred
	pool   *batch.Pool
	b      *batch.Batch
	full   []*batch.Batch
}

func newPartialRows(p *plan.Partial, code *codegen.Aggregate, out types.Schema, found *resolution) *partialRows {
	r := &partialRows{code: code, pool: batch.NewPool(p.Out.Types()), labels: make([][]uint32, len(code.Keys)),
		shares: sharesOf(found.wants, found.inferred)}
	at := 1 + len(p.Keys)
	for i := range p.Aggs {
		fields, _ := plan.StateFields(&p.Aggs[i])
		r.first, r.width = append(r.first, at), append(r.width, len(fields))
		at += len(fields)
	}
	for i, k := range code.Keys {
		if k.Column < 0 {
			continue
		}
		dict := r.pool.Dict(1 + i)
		label := func(l label) {
			name := l.function
			switch columnByName[out.Fields[k.Column].Name] {
			case colClass:
				name = l.class
			case colModule:
				name = l.module
			case colExe:
				name = l.exe
			}
			r.labels[i] = append(r.labels[i], dict.Code(name))
		}
		for _, w := range found.wants {
			label(w.label)
		}
		for _, f := range found.inferred {
			label(f.label)
		}
	}
	return r
}

// row begins a row with its pane and keys.
func (r *partialRows) row(key []uint64) {
	if r.b == nil {
		r.b = r.pool.Get()
	}
	r.b.Cols[0].Int = append(r.b.Cols[0].Int, r.pane)
	for i, k := range r.code.Keys {
		c := &r.b.Cols[1+i]
		switch {
		case k.Column >= 0:
			c.Code = append(c.Code, r.labels[i][key[0]>>32])
		case k.Values != nil:
			c.Append(r.b.N, k.Values[key[k.Word]])
		case k.Name:
			c.Code = append(c.Code, c.Dict.CodeBytes(nameIn(key[k.Word:k.Word+2])))
		default:
			c.Int = append(c.Int, int64(key[k.Word]))
		}
	}
}

// nameIn is a name as the kernel keeps it, in two words.
func nameIn(words []uint64) []byte {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), codegen.NameSize)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// group makes a row of a group's state, and those of the functions whose calls
// follow.
func (r *partialRows) group(key, state []uint64) {
	if state[r.code.Events] == 0 { // no event found room in all that it needed
		return
	}
	r.state(key, state, 1)
	if r.shares == nil {
		return
	}
	own := key[0]
	for _, f := range r.shares[own>>32] {
		key[0] = uint64(f.function)<<32 | own&math.MaxUint32
		r.state(key, state, uint64(f.times))
	}
	key[0] = own
}

// state makes a row of a state so many times over, which must have counts alone
// if that is not once.
func (r *partialRows) state(key, state []uint64, times uint64) {
	r.row(key)
	for i, a := range r.code.Aggs {
		for k := range r.width[i] {
			v := uint64(0) // in a sketch: none
			if a.Sketch < 0 {
				v = state[a.Words[k]]
			}
			c := &r.b.Cols[r.first[i]+k]
			c.Int = append(c.Int, int64(v*times))
		}
	}
	r.next()
}

// bucket makes a row of the count of a bucket; the key's last word says which.
func (r *partialRows) bucket(key, count []uint64) {
	if count[0] == 0 {
		return
	}
	sketch, bucket := codegen.DecodeBucket(key[len(key)-1])
	r.row(key)
	for i, a := range r.code.Aggs {
		cols := r.b.Cols[r.first[i]:][:r.width[i]]
		if a.Sketch == sketch {
			cols[0].Int = append(cols[0].Int, bucket)
			cols[1].Int = append(cols[1].Int, int64(count[0]))
			continue
		}
		for k := range cols {
			cols[k].Int = append(cols[k].Int, 0)
		}
	}
	r.next()
}

// next ends a row.
func (r *partialRows) next() {
	if r.b.N++; r.b.N == batch.MaxRows {
		r.finish()
	}
}

func (r *partialRows) finish() {
	if r.b == nil {
		return
	}
	for i := range r.b.Cols {
		if c := &r.b.Cols[i]; c.Dict != nil {
			c.Values = c.Dict.Values()
		}
	}
	r.full = append(r.full, r.b)
	r.b = nil
	for i, k := range r.code.Keys {
		if k.Name && r.pool.Dict(1+i).Len() > dictLimit {
			r.pool.Renew(1 + i)
		}
	}
}

// take returns what was made since the last call.
func (r *partialRows) take() []*batch.Batch {
	r.finish()
	full := r.full
	r.full = nil
	return full
}
