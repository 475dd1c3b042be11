package sort

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"unsafe"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// sorter orders each emitted result: the rows up to a Flush, or to the end.
// Equal rows keep their order. With a limit it keeps the first rows only, in a
// heap whose top is the last of them.
//
// If the input is one unbounded result (no operator below sends Flush), sorter emits
// all rows so far at each Tick that requests a result, and keeps them.
//
// The output is not ordered by time, so a watermark has no meaning for its rows. It is
// forwarded to show that the query is alive.
type sorter struct {
	out     operators.Output
	keys    []sortKey
	rows    *rowstore.Store // the input's columns, then the computed keys
	entries []sortEntry
	limit   int // 0: none
	seq     int64
	single  bool // the input is one result: Ticks count
	every   bool // EMIT EVERY

	progs []*expr.Program // the computed keys
	cols  []batch.Column  // scratch: input and computed columns
	first []uint64        // scratch: prefixes of a batch
	slots []int32
	pool  *batch.Pool
}

// sortKey orders by a column of the store.
type sortKey struct {
	col  int
	desc bool
}

// sortEntry is a row to be sorted. Most comparisons end at the prefix, which
// orders like the first key where it differs.
type sortEntry struct {
	prefix uint64
	seq    int64 // of arrival
	slot   int32
}

func New(n *plan.Sort, down operators.Operator, limit int64) (operators.Operator, error) {
	in := n.Schema().Types()
	s := &sorter{out: operators.Output{To: down}, limit: int(n.Limit), single: !Flushes(n.Input),
		every: n.Emit.Mode == plan.Every, pool: batch.NewPool(in)}
	all := slices.Clone(in)
	for _, k := range n.Keys {
		if c, ok := k.X.(*plan.Col); ok {
			s.keys = append(s.keys, sortKey{c.Index, k.Desc})
			continue
		}
		p, err := expr.Compile(k.X, in)
		if err != nil {
			return nil, err
		}
		s.progs = append(s.progs, p)
		s.keys = append(s.keys, sortKey{len(all), k.Desc})
		all = append(all, k.X.Type())
	}
	s.rows = rowstore.New(all, limit, "ORDER BY", "LIMIT keeps only the first rows")
	s.rows.Width += int64(unsafe.Sizeof(sortEntry{}))
	s.cols = make([]batch.Column, len(all))
	return s, nil
}

func (s *sorter) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if s.out.Status != operators.More {
		return s.out.Status, nil
	}
	n := copy(s.cols, b.Cols)
	for i, p := range s.progs {
		c, err := p.Eval(b)
		if err != nil {
			return s.out.Status, err
		}
		s.cols[n+i] = *c
	}
	err := s.add(batch.RowsOf(b))
	clear(s.cols)
	return s.out.Status, err
}

func (s *sorter) add(rows []uint16) error {
	s.first = s.prefixes(rows, s.first[:0])
	keep := len(rows)
	if s.limit > 0 {
		keep = min(keep, s.limit-len(s.entries))
	}
	var err error
	if s.slots, err = s.rows.Add(s.cols, rows[:keep], s.slots[:0]); err != nil {
		return err
	}
	for i, slot := range s.slots {
		s.entries = append(s.entries, sortEntry{s.first[i], s.seq, slot})
		s.seq++
	}
	if keep > 0 && len(s.entries) == s.limit {
		heap.Init((*worstFirst)(s))
	}
	for i := keep; i < len(rows); i++ {
		s.replaceWorst(rows[i], s.first[i])
	}
	return s.rows.Check()
}

// replaceWorst replaces the last row kept by row r, if r sorts before it.
func (s *sorter) replaceWorst(r uint16, prefix uint64) {
	worst := &s.entries[0]
	if prefix > worst.prefix ||
		prefix == worst.prefix && compareKeys(s.keys, s.cols, int(r), s.rows.Cols, int(worst.slot)) >= 0 {
		return
	}
	s.rows.Set(s.cols, []uint16{r}, []int32{worst.slot})
	worst.prefix, worst.seq = prefix, s.seq
	s.seq++
	heap.Fix((*worstFirst)(s), 0)
}

// worstFirst is the heap of a top-n.
type worstFirst sorter

func (s *worstFirst) Len() int { return len(s.entries) }

func (s *worstFirst) Less(i, j int) bool { return (*sorter)(s).compare(s.entries[i], s.entries[j]) > 0 }

func (s *worstFirst) Swap(i, j int) {
	s.entries[i], s.entries[j] = s.entries[j], s.entries[i]
}

func (s *worstFirst) Push(any) {}

func (s *worstFirst) Pop() any { return nil }

func (s *sorter) compare(a, b sortEntry) int {
	switch {
	case a.prefix < b.prefix:
		return -1
	case a.prefix > b.prefix:
		return 1
	}
	if c := compareKeys(s.keys, s.rows.Cols, int(a.slot), s.rows.Cols, int(b.slot)); c != 0 {
		return c
	}
	if a.seq < b.seq {
		return -1
	}
	return 1
}

func (s *sorter) Signal(ctx context.Context, _ int, sig operators.Signal) (operators.Status, error) {
	switch {
	case sig.Kind == operators.Flush:
		if err := s.emit(ctx); err != nil {
			return s.out.Status, err
		}
		s.reset()
	case sig.Kind == operators.Tick && s.single && (sig.Preview || s.every):
		if err := s.emit(ctx); err != nil {
			return s.out.Status, err
		}
		flush := operators.Signal{Kind: operators.Flush, Time: sig.Time, Preview: sig.Preview}
		if _, err := s.out.Signal(ctx, flush); err != nil {
			return s.out.Status, err
		}
	}
	return s.out.Signal(ctx, sig)
}

// order sorts the entries: all by prefix, which touches no row, then the rows
// that share a prefix by their keys.
func (s *sorter) order() {
	exact := s.prefixIsExact()
	slices.SortFunc(s.entries, func(a, b sortEntry) int {
		switch {
		case a.prefix < b.prefix:
			return -1
		case a.prefix > b.prefix:
			return 1
		case a.seq < b.seq:
			return -1
		}
		return 1
	})
	for i := 0; i < len(s.entries); {
		j := i + 1
		for j < len(s.entries) && s.entries[j].prefix == s.entries[i].prefix {
			j++
		}
		if j > i+1 && !(exact && decided(s.entries[i].prefix)) {
			slices.SortFunc(s.entries[i:j], s.compare)
		}
		i = j
	}
}

// decided reports whether a prefix stands for one value. The smallest and the largest
// prefix do not, because NULL shares them.
func decided(prefix uint64) bool { return prefix != 0 && prefix != math.MaxUint64 }

// prefixIsExact reports whether rows that share a decided prefix are equal, which
// holds for a single numeric key. It makes the prefix exact for texts by ranking
// them, if they recur: then each text is compared once, not each row. (A top-n
// compares its rows with new rows, which have no rank.)
func (s *sorter) prefixIsExact() bool {
	if len(s.keys) == 0 {
		return false
	}
	c := &s.rows.Cols[s.keys[0].col]
	switch c.Type.Physical() {
	case types.PhysAny:
		return false
	case types.PhysCode:
		if s.limit > 0 || len(c.Values) > len(s.entries) {
			return false
		}
		s.rankFirst(c)
	}
	return len(s.keys) == 1
}

// rankFirst replaces the prefixes by the ranks of the texts in c, the first
// key.
func (s *sorter) rankFirst(c *batch.Column) {
	codes := make([]uint32, len(c.Values))
	for i := range codes {
		codes[i] = uint32(i)
	}
	slices.SortFunc(codes, func(a, b uint32) int { return cmp.Compare(c.Values[a], c.Values[b]) })
	rank := make([]uint64, len(codes))
	for i, code := range codes {
		rank[code] = uint64(i) + 1
	}
	for i := range s.entries {
		e := &s.entries[i]
		e.prefix = rank[c.Code[e.slot]]
		if c.Nulls.Get(int(e.slot)) {
			e.prefix = math.MaxUint64
		}
		if s.keys[0].desc {
			e.prefix = ^e.prefix
		}
	}
}

// emit pushes the rows in order and keeps them.
func (s *sorter) emit(ctx context.Context) error {
	s.order()
	for i := 0; i < len(s.entries) && s.out.Status == operators.More; i += batch.MaxRows {
		s.slots = s.slots[:0]
		for _, e := range s.entries[i:min(i+batch.MaxRows, len(s.entries))] {
			s.slots = append(s.slots, e.slot)
		}
		b := s.pool.Get()
		s.rows.Gather(b, s.slots)
		_, err := s.out.Push(ctx, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	if s.limit > 0 { // last row first: a heap again
		slices.Reverse(s.entries)
	}
	return nil
}

func (s *sorter) reset() {
	s.entries, s.seq = s.entries[:0], 0
	s.rows.Reset()
}

// Close emits the rows since the last Flush. A separate result is marked complete even
// if it is empty.
func (s *sorter) Close(ctx context.Context, _ int) error {
	if len(s.entries) > 0 || s.single {
		if err := s.emit(ctx); err != nil {
			return err
		}
		if _, err := s.out.Signal(ctx, operators.Signal{Kind: operators.Flush}); err != nil {
			return err
		}
	}
	s.reset()
	return s.out.Close(ctx)
}
