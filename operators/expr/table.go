package expr

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// tableNode is an expression of one dictionary-coded column and constants. It is computed
// once per dictionary entry, when a row first needs it, and then looked up by code. Nothing
// is computed that no row needs, so an expression fails here exactly when it would fail row
// by row.
type tableNode struct {
	col  int
	body node // over a batch of one column, whose rows are entries
	in   [1]batch.Column

	tables [maxTables]table
	next   int         // index of the table to replace next
	dict   *batch.Dict // of text results, shared by all tables

	out     output
	missing []uint32 // slots
}

// maxTables is the number of dictionaries a table node caches: a stream that merges sources
// alternates between their dictionaries.
const maxTables = 4

// table holds results by slot: slot 0 is the result for NULL, slot c+1 that for code c.
type table struct {
	dict  *batch.Dict
	state []state
	nulls bool         // some slot is null
	val   batch.Column // of slots that have a value
}

// state of a slot. All but unknown have the bit known.
type state uint8

const (
	unknown state = 0
	known   state = 4         // has a value; of a BOOLEAN it is false
	isTrue  state = known | 1 // BOOLEAN only
	null    state = known | 2
)

// tabular reports whether e should become a table, and of which column.
func (c *compiler) tabular(e plan.Expr) (col int, ok bool) {
	if c.perEntry || trivial(e) || e.Type().Physical() == types.PhysAny || e.Type() == types.Null {
		return 0, false
	}
	col, ok = -1, !plan.Volatile(e)
	plan.Walk(e, func(e plan.Expr) {
		if x, is := e.(*plan.Col); is {
			ok = ok && x.T.Physical() == types.PhysCode && (col < 0 || col == x.Index) &&
				x.Index < len(c.in) && x.Index >= 0 && c.in[x.Index] == x.T
			col = x.Index
		}
	})
	return col, ok && col >= 0
}

// trivial reports whether e does not read the text: columns, their NULL bitmaps, and the
// same bytes under another type.
func trivial(e plan.Expr) bool {
	switch e := e.(type) {
	case *plan.Col:
		return true
	case *plan.Call:
		return (e.Fn == "is null" || e.Fn == "not") && trivial(e.Args[0])
	case *plan.Cast:
		return e.T.Physical() == e.X.Type().Physical() && trivial(e.X)
	}
	return false
}

func (c *compiler) newTable(e plan.Expr, col int) (node, error) {
	inner := compiler{in: []types.Type{c.in[col]}, perEntry: true}
	body, err := inner.expr(plan.Transform(e, func(e plan.Expr) plan.Expr {
		if x, ok := e.(*plan.Col); ok {
			return &plan.Col{Index: 0, Name: x.Name, T: x.T}
		}
		return e
	}))
	if err != nil {
		return nil, err
	}
	if _, ok := constant(body); ok {
		return body, nil
	}
	n := &tableNode{col: col, body: body, out: output{col: batch.Column{Type: e.Type()}}}
	n.in[0].Type = c.in[col]
	return n, nil
}

// lookup returns the table of the column's dictionary with every slot known that the rows
// need.
func (n *tableNode) lookup(c *batch.Column, r rows) (*table, error) {
	t := n.table(c.Dict)
	if slots := len(c.Values) + 1; len(t.state) < slots {
		t.grow(slots)
	}
	if !t.complete(c, r) {
		if err := n.fill(t, c, r); err != nil {
			t.reset(nil)
			return nil, err
		}
	}
	return t, nil
}

// table finds or creates the table of d. A column without a dictionary's identity gets a
// new one each time.
func (n *tableNode) table(d *batch.Dict) *table {
	if n.out.col.Type.Physical() == types.PhysCode && (n.dict == nil || n.dict.Len() > maxDict) {
		n.dict = newDict()
		clear(n.tables[:])
		clear(n.out.col.Code)
	}
	if d != nil {
		for i := range n.tables {
			if n.tables[i].dict == d {
				return &n.tables[i]
			}
		}
	}
	t := &n.tables[n.next]
	n.next = (n.next + 1) % maxTables
	t.val.Type = n.out.col.Type
	t.reset(d)
	return t
}

// reset empties the table for the entries of d.
func (t *table) reset(d *batch.Dict) {
	t.dict, t.state, t.nulls = d, t.state[:0], false
	t.val.Reset()
}

// complete reports whether the table has every slot that the rows need.
func (t *table) complete(c *batch.Column, r rows) bool {
	if c.Nulls.Any() {
		for k := range r.len() {
			if t.state[slot(c, r.at(k))] == unknown {
				return false
			}
		}
		return true
	}
	// One pass without branches; a missing entry is rare.
	st, all := t.state[1:], known
	if r.sel == nil {
		for _, code := range c.Code[:r.n] {
			all &= st[code]
		}
	} else {
		for _, i := range r.sel {
			all &= st[c.Code[i]]
		}
	}
	return all == known
}

// slot returns the slot of row i's result.
func slot(c *batch.Column, i int) uint32 {
	if c.Nulls.Get(i) {
		return 0
	}
	return c.Code[i] + 1
}

// fill computes the unknown slots that the rows need.
func (n *tableNode) fill(t *table, c *batch.Column, r rows) error {
	n.missing = n.missing[:0]
	in := &n.in[0]
	in.Reset()
	for k := range r.len() {
		s := slot(c, r.at(k))
		if t.state[s] != unknown {
			continue
		}
		t.state[s] = known // do not list it twice
		code := uint32(0)
		if s == 0 {
			in.Nulls.Set(len(n.missing))
		} else {
			code = s - 1
		}
		in.Code = append(in.Code, code)
		n.missing = append(n.missing, s)
	}
	in.Dict, in.Values = c.Dict, c.Values
	res, err := n.body.eval(&frame{cols: n.in[:]}, rows{n: len(n.missing)})
	if err != nil {
		return err
	}
	for i, s := range n.missing {
		if isNull(res, i) {
			t.state[s], t.nulls = null, true
			continue
		}
		switch t.val.Type.Physical() {
		case types.PhysBool:
			if res.Bool[i] {
				t.state[s] = isTrue
			}
		case types.PhysInt:
			t.val.Int[s] = res.Int[i]
		case types.PhysFloat:
			t.val.Float[s] = res.Float[i]
		case types.PhysCode:
			t.val.Code[s] = n.dict.Code(text(res, i))
		}
	}
	return nil
}

// grow adds unknown slots up to n. Truth values are stored in the states.
func (t *table) grow(n int) {
	t.state = grown(t.state, n)
	switch t.val.Type.Physical() {
	case types.PhysInt:
		t.val.Int = grown(t.val.Int, n)
	case types.PhysFloat:
		t.val.Float = grown(t.val.Float, n)
	case types.PhysCode:
		t.val.Code = grown(t.val.Code, n)
	}
}

// grown returns s extended with zeros to n entries.
func grown[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}

func (n *tableNode) eval(f *frame, r rows) (*batch.Column, error) {
	c := &f.cols[n.col]
	t, err := n.lookup(c, r)
	if err != nil {
		return nil, err
	}
	n.out.col.Dict = n.dict
	n.out.resize(r.n)
	o := &n.out.col
	switch o.Type.Physical() {
	case types.PhysBool:
		for k := range r.len() {
			i := r.at(k)
			o.Bool[i] = t.state[slot(c, i)] == isTrue
		}
	case types.PhysInt:
		gather(o.Int, t.val.Int, c, r)
	case types.PhysFloat:
		gather(o.Float, t.val.Float, c, r)
	case types.PhysCode:
		gather(o.Code, t.val.Code, c, r)
	}
	if t.nulls {
		for k := range r.len() {
			if i := r.at(k); t.state[slot(c, i)] == null {
				n.out.setNull(i)
			}
		}
	}
	return n.out.end(), nil
}

// gather copies each row's value from its slot. Values of NULL slots are zero.
func gather[T any](dst, values []T, c *batch.Column, r rows) {
	if c.Nulls.Any() {
		for k := range r.len() {
			i := r.at(k)
			dst[i] = values[slot(c, i)]
		}
		return
	}
	values = values[1:]
	if r.sel == nil {
		for i, code := range c.Code[:r.n] {
			dst[i] = values[code]
		}
		return
	}
	for _, i := range r.sel {
		dst[i] = values[c.Code[i]]
	}
}

func (n *tableNode) choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error) {
	c := &f.cols[n.col]
	t, err := n.lookup(c, r)
	if err != nil {
		return nil, err
	}
	wanted := known
	if want {
		wanted = isTrue
	}
	if c.Nulls.Any() {
		for k := range r.len() {
			if i := r.at(k); t.state[slot(c, i)] == wanted {
				dst = append(dst, uint16(i))
			}
		}
		return dst, nil
	}
	return chooseCode(t.state[1:], c.Code, wanted, r, dst), nil
}

func chooseCode(st []state, codes []uint32, wanted state, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	if r.sel == nil {
		for i, code := range codes[:r.n] {
			dst[k] = uint16(i)
			if st[code] == wanted {
				k++
			}
		}
		return dst[:k]
	}
	for _, i := range r.sel {
		dst[k] = i
		if st[codes[i]] == wanted {
			k++
		}
	}
	return dst[:k]
}
