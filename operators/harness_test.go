package operators

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// The tests of operators are plays: a plan, what its sources give, and what
// comes out, in one notation.
//
//	1 10 a        a row: its values, separated by spaces; null is NULL
//	--            the batch ends here (so it does before a signal)
//	+ 0 a 3       a partial row (plan.Partial), in a batch of its own
//	wm 5          a watermark; also: tick 5, preview 5, gap late 3,
//	              barrier 1, flush
//	close         the source ends
//	1: 3 7 b      the same for source number 1 (default 0)
//
// A drained source prints "drain 0" in the output, once.

// relation is a leaf with columns like "t:bigint s:varchar"; t is event time.
func relation(columns string) *plan.Acquire {
	a := &plan.Acquire{Stream: "test", Out: types.Schema{Time: -1}}
	for _, c := range strings.Fields(columns) {
		name, typ, _ := strings.Cut(c, ":")
		t, ok := types.ParseType(typ)
		if !ok && typ == "list" {
			t = types.List
		}
		if name == "t" {
			a.Out.Time = len(a.Out.Fields)
		}
		a.Out.Fields = append(a.Out.Fields, types.Field{Name: name, Type: t})
	}
	return a
}

func column(in plan.Node, name string) *plan.Col {
	i := in.Schema().Index(name)
	return &plan.Col{Index: i, Name: name, T: in.Schema().Fields[i].Type}
}

func call(t types.Type, fn string, args ...plan.Expr) plan.Expr {
	return &plan.Call{Fn: fn, Args: args, T: t}
}

func literal(v types.Value) plan.Expr { return &plan.Const{V: v} }

// play runs a plan over a script, once with dense batches and once with
// batches whose rows lie between others that do not count and whose
// dictionaries are new for each batch. It must make no difference.
func play(t *testing.T, root plan.Node, o Options, script string) string {
	t.Helper()
	dense, err := perform(root, o, script, false)
	if err != nil {
		dense += "error: " + err.Error() + "\n"
	}
	sparse, err := perform(root, o, script, true)
	if err != nil {
		sparse += "error: " + err.Error() + "\n"
	}
	if dense != sparse {
		t.Errorf("selections make a difference\n--- dense\n%s--- sparse\n%s", dense, sparse)
	}
	return dense
}

// expect compares what a play gave with lines, whose indentation does not
// count.
func expect(t *testing.T, got, want string) {
	t.Helper()
	if want = unindent(want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func unindent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func perform(root plan.Node, o Options, script string, sparse bool) (string, error) {
	rec := &recorder{schema: root.Schema()}
	g, err := Build(root, rec, &o)
	if err != nil {
		return "", err
	}
	defer g.Abandon()
	sources := make([]*source, len(g.Leaves))
	for i, l := range g.Leaves {
		sources[i] = &source{leaf: l, n: i, rec: rec, sparse: sparse, types: l.Acquire.Out.Types(),
			pool: batch.NewPool(l.Acquire.Out.Types())}
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		n := 0
		if len(line) > 2 && line[1] == ':' {
			n, line = int(line[0]-'0'), strings.TrimSpace(line[2:])
		}
		if err := sources[n].do(line); err != nil {
			return rec.text.String(), err
		}
	}
	return rec.text.String(), nil
}

// source plays one leaf's lines.
type source struct {
	leaf    Leaf
	n       int
	rec     *recorder
	sparse  bool
	types   []types.Type
	pool    *batch.Pool
	b       *batch.Batch
	drained bool
}

func (s *source) do(line string) error {
	ctx := context.Background()
	word, rest, _ := strings.Cut(line, " ")
	sig := Signal{}
	switch word {
	case "wm":
		sig = Signal{Kind: Watermark, Time: number(rest)}
	case "tick", "preview":
		sig = Signal{Kind: Tick, Time: number(rest), Preview: word == "preview"}
	case "flush":
		sig = Signal{Kind: Flush}
	case "barrier":
		sig = Signal{Kind: Barrier, ID: uint64(number(rest))}
	case "gap":
		cause, n, _ := strings.Cut(rest, " ")
		sig = Signal{Kind: Gap, Cause: cause, N: uint64(number(n))}
	case "--":
		return s.push(ctx)
	case "+":
		if err := s.push(ctx); err != nil {
			return err
		}
		return s.partial(ctx, strings.Fields(rest))
	case "close":
		if err := s.push(ctx); err != nil {
			return err
		}
		return s.leaf.Op.Close(ctx, s.leaf.Port)
	default:
		s.row(strings.Fields(line))
		return nil
	}
	if err := s.push(ctx); err != nil {
		return err
	}
	return s.answer(s.leaf.Op.Signal(ctx, s.leaf.Port, sig))
}

func (s *source) push(ctx context.Context) error {
	if s.b == nil {
		return nil
	}
	b := s.b
	s.b = nil
	defer b.Release()
	return s.answer(s.leaf.Op.Push(ctx, s.leaf.Port, b))
}

func (s *source) partial(ctx context.Context, cells []string) error {
	kinds := s.leaf.Acquire.Partial.Out.Types()
	b := batch.New(kinds)
	defer b.Release()
	vs := make([]types.Value, len(cells))
	for i, c := range cells {
		vs[i] = value(kinds[i], c)
	}
	if s.sparse {
		b.AppendRow(s.junk(kinds, b.N)...)
		b.Sel = []uint16{1}
	}
	b.AppendRow(vs...)
	return s.answer(s.leaf.Partial.Push(ctx, 0, b))
}

func (s *source) answer(st Status, err error) error {
	if st == Drain && !s.drained {
		s.drained = true
		fmt.Fprintf(&s.rec.text, "drain %d\n", s.n)
	}
	return err
}

func (s *source) row(cells []string) {
	if s.b == nil {
		s.b = s.pool.Get()
		if s.sparse {
			s.b.Sel = []uint16{}
			for i := range s.b.Cols {
				if s.b.Cols[i].Dict != nil {
					s.b.Cols[i].Dict = batch.NewDict()
				}
			}
		}
	}
	if s.sparse {
		s.b.AppendRow(s.junk(s.types, s.b.N)...)
		s.b.Sel = append(s.b.Sel, uint16(s.b.N))
	}
	vs := make([]types.Value, len(cells))
	for i, c := range cells {
		vs[i] = value(s.types[i], c)
	}
	s.b.AppendRow(vs...)
}

// junk is a row that does not count.
func (s *source) junk(kinds []types.Type, n int) []types.Value {
	vs := make([]types.Value, len(kinds))
	for i, t := range kinds {
		vs[i] = types.Value{Type: t, I: 1, F: -77, S: "junk", IsNull: n%4 == 0}
	}
	return vs
}

func value(t types.Type, s string) types.Value {
	if s == "null" {
		return types.NullOf(t)
	}
	v := types.Value{Type: t}
	switch t.Physical() {
	case types.PhysBool:
		if s == "true" {
			v.I = 1
		}
	case types.PhysInt:
		v.I = number(s)
	case types.PhysFloat:
		v.F, _ = strconv.ParseFloat(s, 64)
	case types.PhysCode:
		v.S = strings.Trim(s, "'")
	case types.PhysAny:
		var vs []types.Value
		for x := range strings.SplitSeq(s, ",") {
			vs = append(vs, types.Str(x))
		}
		v.A = vs
	}
	return v
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err) // a mistake in a script
	}
	return n
}

// recorder is the sink of a play.
type recorder struct {
	schema types.Schema
	text   strings.Builder
}

func (r *recorder) Push(_ context.Context, _ int, b *batch.Batch) (Status, error) {
	for i := range b.Len() {
		for c := range b.Cols {
			if c > 0 {
				r.text.WriteByte(' ')
			}
			r.text.WriteString(cell(b.Cols[c].Value(b.Row(i))))
		}
		r.text.WriteByte('\n')
	}
	return More, nil
}

func cell(v types.Value) string {
	switch {
	case v.IsNull:
		return "null"
	case v.Type.Physical() == types.PhysInt:
		return strconv.FormatInt(v.I, 10)
	case v.Type == types.List:
		var ss []string
		for _, x := range v.A.([]types.Value) {
			ss = append(ss, x.S)
		}
		return strings.Join(ss, ",")
	case v.Type.Physical() == types.PhysCode:
		if v.S == "" {
			return "''"
		}
		return v.S
	}
	return plan.FormatValue(v)
}

func (r *recorder) Signal(_ context.Context, _ int, s Signal) (Status, error) {
	switch s.Kind {
	case Watermark:
		fmt.Fprintf(&r.text, "wm %d\n", s.Time)
	case Tick:
		word := "tick"
		if s.Preview {
			word = "preview"
		}
		fmt.Fprintf(&r.text, "%s %d\n", word, s.Time)
	case Gap:
		fmt.Fprintf(&r.text, "gap %s %d\n", s.Cause, s.N)
	case Barrier:
		fmt.Fprintf(&r.text, "barrier %d\n", s.ID)
	case Flush:
		word := "flush"
		if s.Preview {
			word = "flush preview"
		}
		fmt.Fprintln(&r.text, word)
	}
	return More, nil
}

func (r *recorder) Close(context.Context, int) error {
	r.text.WriteString("close\n")
	return nil
}

func newPool(n plan.Node) *batch.Pool { return batch.NewPool(n.Schema().Types()) }
