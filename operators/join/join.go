package join

import (
	"context"
	"math"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Ports of a join.
const (
	left  = 0
	right = 1
)

// joinBase is the part that all joins share: two sides that keep rows, a condition over
// pairs of them, and the merging of signals.
//
// Rows are kept in one rowStore per side, chained by the hash of the expressions that the
// condition compares for equality (a constant hash if there are none). The chains only
// narrow the choice: the condition is evaluated on every proposed pair, a batch of pairs at
// a time, so any condition works and hash collisions are harmless.
type joinBase struct {
	kind  rowJoin // nil for joins with a value
	out   operators.Output
	node  *plan.Join
	sides [2]joinSide
	cond  *expr.Filter
	reads []int // the columns that cond reads
	wide  *batch.Pool
	test  *batch.Pool
	pairs [2][]int32 // slots of the proposed pairs
	sel   []uint16
	limit int64
	sent  int64    // the last watermark sent downstream
	ticks [2]int64 // last sent downstream
}

// rowJoin is a join that keeps rows of both sides.
type rowJoin interface {
	// add processes a batch after its rows have been stored: of rows, which can be joined,
	// those in kept have a key and are in slots.
	add(ctx context.Context, port int, b *batch.Batch, rows, kept []uint16, slots []int32) error
	// advance processes what new watermarks allow.
	advance(ctx context.Context) error
}

// joinSide is one input and its rows that may still find a partner.
type joinSide struct {
	operators.Input
	from  int // index of its first column in a pair
	n     int
	time  int // index among its own columns
	rows  *rowstore.Store
	keys  []*expr.Program
	cols  []batch.Column // scratch: a batch's columns, then its keys
	found []*batch.Column
	hash  rowHash
	index slotIndex // unused by joins that search differently
	slots []int32
	sel   []uint16
}

func New(n *plan.Join, down operators.Operator, o *operators.Options) (operators.Operator, error) {
	j := joinBase{out: operators.Output{To: down}, node: n, limit: o.JoinMemory, sent: operators.NoTime, ticks: [2]int64{operators.NoTime, operators.NoTime}}
	if j.limit == 0 {
		j.limit = DefaultJoinMemory
	}
	kinds := n.Out.Types()
	j.wide, j.test = batch.NewPool(kinds), batch.NewPool(kinds)
	if n.On != nil {
		var err error
		if j.cond, err = expr.CompileFilter(n.On, kinds); err != nil {
			return nil, err
		}
		used := map[int]bool{}
		plan.Walk(n.On, func(e plan.Expr) {
			if c, ok := e.(*plan.Col); ok && !used[c.Index] {
				used[c.Index] = true
				j.reads = append(j.reads, c.Index)
			}
		})
	}
	split := len(n.Left.Schema().Fields)
	for port, in := range n.Inputs() {
		s := in.Schema()
		side := joinSide{Input: operators.Input{Watermark: operators.NoTime, Latest: operators.NoTime, Ticks: j.ticks}, from: port * split,
			n: len(s.Fields), time: s.Time}
		kinds := s.Types()
		for _, eq := range equalities(n.On, split) {
			p, err := expr.Compile(eq[port], kinds[:side.n])
			if err != nil {
				return nil, err
			}
			side.keys, kinds = append(side.keys, p), append(kinds, p.Type())
		}
		side.rows = rowstore.New(kinds, math.MaxInt64, "a join", "") // bounded by the join, which drops rows
		j.sides[port] = side
	}
	switch n.Kind {
	case plan.AsOfJoin:
		return newAsOfJoin(j), nil
	case plan.ValueJoin:
		return newValueJoin(j, o)
	}
	return newWindowJoin(j), nil
}

// DefaultJoinMemory is the default memory limit for the rows of one join.
const DefaultJoinMemory = 256 << 20

// equalities returns the conjuncts of a condition that compare an expression of the left
// input (columns before split) with one of the right input, each as two expressions over
// the inputs' own columns.
func equalities(on plan.Expr, split int) [][2]plan.Expr {
	c, ok := on.(*plan.Call)
	switch {
	case !ok:
		return nil
	case c.Fn == "and":
		return append(equalities(c.Args[0], split), equalities(c.Args[1], split)...)
	case c.Fn != "=" || c.Args[0].Type().Physical() == types.PhysAny:
		return nil
	}
	l, r := c.Args[0], c.Args[1]
	if l.Type() != r.Type() { // UBIGINT and BIGINT
		l, r = unsigned(l), unsigned(r)
	}
	x, y := portOf(l, split), portOf(r, split)
	switch {
	case x == left && y == right:
		return [][2]plan.Expr{{l, plan.Shift(r, -split)}}
	case x == right && y == left:
		return [][2]plan.Expr{{r, plan.Shift(l, -split)}}
	}
	return nil
}

// unsigned returns e as UBIGINT. A negative BIGINT is NULL, which equals nothing.
func unsigned(e plan.Expr) plan.Expr {
	if e.Type().Unsigned() {
		return e
	}
	positive := &plan.Call{Fn: ">=", T: types.Boolean, Args: []plan.Expr{e, &plan.Const{V: types.Value{Type: e.Type()}}}}
	return &plan.Case{T: types.Ubigint, Whens: []plan.When{{Cond: positive, Then: &plan.Cast{X: e, T: types.Ubigint}}}}
}

// portOf returns the input whose columns e reads, -1 if it is not exactly one.
func portOf(e plan.Expr, split int) int {
	var reads [2]bool
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			if c.Index < split {
				reads[left] = true
			} else {
				reads[right] = true
			}
		}
	})
	switch reads {
	case [2]bool{true, false}:
		return left
	case [2]bool{false, true}:
		return right
	}
	return -1
}

func (j *joinBase) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	if j.out.Status != operators.More || b.Len() == 0 {
		return j.out.Status, nil
	}
	rows, err := j.arriving(ctx, port, b)
	if err != nil {
		return j.out.Status, err
	}
	slots, kept, err := j.sides[port].store(b, rows)
	if err != nil {
		return j.out.Status, err
	}
	err = j.kind.add(ctx, port, b, rows, kept, slots)
	return j.out.Status, err
}

func (j *joinBase) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	if s.Kind != operators.Watermark {
		return j.otherSignal(ctx, port, s)
	}
	in := &j.sides[port]
	if s.Time <= in.Watermark {
		return j.out.Status, nil
	}
	in.Watermark = s.Time
	err := j.kind.advance(ctx)
	return j.out.Status, err
}

func (j *joinBase) Close(ctx context.Context, port int) error {
	in := &j.sides[port]
	in.Closed, in.Watermark = true, operators.EndOfTime
	if err := j.kind.advance(ctx); err != nil {
		return err
	}
	if j.sides[1-port].Closed {
		return j.out.Close(ctx)
	}
	for k := range j.ticks {
		if err := j.tick(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// arriving returns the rows of b that can be joined: those that have a time and are not
// late.
func (j *joinBase) arriving(ctx context.Context, port int, b *batch.Batch) ([]uint16, error) {
	s := &j.sides[port]
	col := &b.Cols[s.time]
	s.sel = s.sel[:0]
	late, timeless := 0, 0
	for _, r := range batch.RowsOf(b) {
		switch {
		case len(col.Nulls) > 0 && col.Nulls.Get(int(r)):
			timeless++
		case col.Int[r] < s.Watermark:
			late++
		default:
			s.sel = append(s.sel, r)
		}
	}
	if err := j.lost(ctx, "late", late); err != nil {
		return nil, err
	}
	return s.sel, j.lost(ctx, "no timestamp", timeless)
}

func (j *joinBase) lost(ctx context.Context, cause string, n int) error {
	if n == 0 {
		return nil
	}
	_, err := j.out.Signal(ctx, operators.Signal{Kind: operators.Gap, Cause: cause, N: uint64(n)})
	return err
}

// store stores the rows of b that have a key, and returns them and their slots. A row's
// keys are stored after its columns.
func (s *joinSide) store(b *batch.Batch, rows []uint16) (slots []int32, kept []uint16, err error) {
	s.cols, s.found = append(s.cols[:0], b.Cols...), s.found[:0]
	for _, k := range s.keys {
		c, err := k.Eval(b)
		if err != nil {
			return nil, nil, err
		}
		s.cols, s.found = append(s.cols, *c), append(s.found, c)
	}
	kept = s.hash.fill(s.found, rows)
	s.slots, err = s.rows.Add(s.cols, kept, s.slots[:0])
	clear(s.cols)
	return s.slots, kept, err
}

// chain adds the rows stored last to the index under their keys.
func (s *joinSide) chain(slots []int32, kept []uint16) {
	for i, r := range kept {
		s.index.insert(slots[i], s.hash.hashes[r])
	}
}

func (s *joinSide) times() []int64 { return s.rows.Cols[s.time].Int }

// slotBytes is the memory that an index and a list need per slot.
const slotBytes = 32

// bytes returns the approximate memory of the side's rows.
func (s *joinSide) bytes() int64 {
	n := int64(s.rows.Live())*(s.rows.Width+slotBytes) + s.rows.Any
	for _, t := range s.rows.Tr {
		if t != nil {
			n += t.Bytes
		}
	}
	return n
}

// propose adds a pair and tests the pairs when a batch is full.
func (j *joinBase) propose(ctx context.Context, l, r int32, matched func(pairs [2][]int32)) error {
	j.pairs[left], j.pairs[right] = append(j.pairs[left], l), append(j.pairs[right], r)
	if len(j.pairs[left]) == batch.MaxRows {
		return j.settle(ctx, matched)
	}
	return nil
}

// settle tests the proposed pairs and emits those that satisfy the condition; matched, if
// not nil, is called with them. A batch may have any number of partners, so settle also
// checks whether the query has ended.
func (j *joinBase) settle(ctx context.Context, matched func(pairs [2][]int32)) error {
	if len(j.pairs[left]) == 0 {
		return nil
	}
	defer func() { j.pairs[left], j.pairs[right] = j.pairs[left][:0], j.pairs[right][:0] }()
	if err := ctx.Err(); err != nil || j.out.Status != operators.More {
		return err
	}
	if err := j.choose(); err != nil {
		return err
	}
	if matched != nil {
		matched(j.pairs)
	}
	return j.emit(ctx)
}

// choose keeps the pairs that satisfy the condition.
func (j *joinBase) choose() error {
	if j.cond == nil {
		return nil
	}
	b := j.test.Get()
	defer b.Release()
	for _, c := range j.reads {
		j.gather(b, c)
	}
	b.N = len(j.pairs[left])
	var err error
	if j.sel, err = j.cond.Select(b, j.sel[:0]); err != nil {
		return err
	}
	for port := range j.pairs {
		p := j.pairs[port]
		for i, r := range j.sel {
			p[i] = p[r]
		}
		j.pairs[port] = p[:len(j.sel)]
	}
	return nil
}

// gather fills column c of a batch of pairs.
func (j *joinBase) gather(b *batch.Batch, c int) {
	port := left
	if c >= j.sides[right].from {
		port = right
	}
	s := &j.sides[port]
	rowstore.AppendRows(&b.Cols[c], 0, &s.rows.Cols[c-s.from], j.pairs[port], nil)
}

// emit pushes the pairs; an anti join does not.
func (j *joinBase) emit(ctx context.Context) error {
	if len(j.pairs[left]) == 0 || j.node.Anti {
		return nil
	}
	b := j.wide.Get()
	defer b.Release()
	for c := range b.Cols {
		j.gather(b, c)
	}
	b.N = len(j.pairs[left])
	_, err := j.out.Push(ctx, b)
	return err
}

// otherSignal handles signals other than watermarks.
func (j *joinBase) otherSignal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	in := &j.sides[port]
	switch s.Kind {
	case operators.Tick:
		k := operators.TickKind(s.Preview)
		in.Ticks[k] = max(in.Ticks[k], s.Time)
		return j.out.Status, j.tick(ctx, k)
	case operators.Barrier:
		in.Epoch++
		if other := &j.sides[1-port]; !other.Closed && other.Epoch < in.Epoch {
			return j.out.Status, nil
		}
	case operators.Flush: // results of the inputs are not results of the join
		return j.out.Status, nil
	}
	return j.out.Signal(ctx, s)
}

// tick forwards a Tick when both inputs have sent it.
func (j *joinBase) tick(ctx context.Context, kind int) error {
	t := int64(operators.EndOfTime)
	for port := range j.sides {
		if in := &j.sides[port]; !in.Closed {
			t = min(t, in.Ticks[kind])
		}
	}
	if t == operators.EndOfTime || t <= j.ticks[kind] {
		return nil
	}
	j.ticks[kind] = t
	_, err := j.out.Signal(ctx, operators.Signal{Kind: operators.Tick, Time: t, Preview: kind == operators.TickKind(true)})
	return err
}

// forwardWatermark forwards a watermark if it has advanced.
func (j *joinBase) forwardWatermark(ctx context.Context, t int64) error {
	if t <= j.sent || t == operators.EndOfTime {
		return nil
	}
	j.sent = t
	_, err := j.out.Signal(ctx, operators.Signal{Kind: operators.Watermark, Time: t})
	return err
}

// minus returns the watermark less d, without overflow at the ends of time.
func (s *joinSide) minus(d int64) int64 {
	if s.Watermark == operators.NoTime || s.Watermark == operators.EndOfTime {
		return s.Watermark
	}
	return s.Watermark - d
}
