package play

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Run runs a plan over a script twice: with dense batches, and with batches that have
// unselected rows in between and a new dictionary each. The results must be equal.
func Run(t *testing.T, root plan.Node, o operators.Options, script string) string {
	t.Helper()
	dense, err := Perform(root, o, script, false)
	if err != nil {
		dense += "error: " + err.Error() + "\n"
	}
	sparse, err := Perform(root, o, script, true)
	if err != nil {
		sparse += "error: " + err.Error() + "\n"
	}
	if dense != sparse {
		t.Errorf("selections make a difference\n--- dense\n%s--- sparse\n%s", dense, sparse)
	}
	return dense
}

func Perform(root plan.Node, o operators.Options, script string, sparse bool) (string, error) {
	rec := &testplan.Recorder{Schema: root.Schema()}
	g, err := graph.Build(root, rec, &o)
	if err != nil {
		return "", err
	}
	defer g.Abandon()
	sources := make([]*Source, len(g.Leaves))
	for i, l := range g.Leaves {
		sources[i] = &Source{Leaf: l, n: i, Rec: rec, sparse: sparse, Types: l.Acquire.Out.Types(),
			Pool: batch.NewPool(l.Acquire.Out.Types())}
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
		if err := sources[n].Do(line); err != nil {
			return rec.Text.String(), err
		}
	}
	return rec.Text.String(), nil
}

// Source plays the lines of one leaf.
type Source struct {
	Leaf    graph.Leaf
	n       int
	Rec     *testplan.Recorder
	sparse  bool
	Types   []types.Type
	Pool    *batch.Pool
	b       *batch.Batch
	drained bool
}

func (s *Source) Do(line string) error {
	ctx := context.Background()
	word, rest, _ := strings.Cut(line, " ")
	sig := operators.Signal{}
	switch word {
	case "wm":
		sig = operators.Signal{Kind: operators.Watermark, Time: testplan.Number(rest)}
	case "tick", "preview":
		sig = operators.Signal{Kind: operators.Tick, Time: testplan.Number(rest), Preview: word == "preview"}
	case "flush":
		sig = operators.Signal{Kind: operators.Flush}
	case "barrier":
		sig = operators.Signal{Kind: operators.Barrier, ID: uint64(testplan.Number(rest))}
	case "gap":
		cause, n, _ := strings.Cut(rest, " ")
		sig = operators.Signal{Kind: operators.Gap, Cause: cause, N: uint64(testplan.Number(n))}
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
		return s.Leaf.Op.Close(ctx, s.Leaf.Port)
	default:
		s.row(strings.Fields(line))
		return nil
	}
	if err := s.push(ctx); err != nil {
		return err
	}
	return s.answer(s.Leaf.Op.Signal(ctx, s.Leaf.Port, sig))
}

func (s *Source) push(ctx context.Context) error {
	if s.b == nil {
		return nil
	}
	b := s.b
	s.b = nil
	defer b.Release()
	return s.answer(s.Leaf.Op.Push(ctx, s.Leaf.Port, b))
}

func (s *Source) partial(ctx context.Context, cells []string) error {
	kinds := s.Leaf.Acquire.Partial.Out.Types()
	b := batch.New(kinds)
	defer b.Release()
	vs := make([]types.Value, len(cells))
	for i, c := range cells {
		vs[i] = testplan.Value(kinds[i], c)
	}
	if s.sparse {
		b.AppendRow(s.junk(kinds, b.N)...)
		b.Sel = []uint16{1}
	}
	b.AppendRow(vs...)
	return s.answer(s.Leaf.Partial.Push(ctx, 0, b))
}

func (s *Source) answer(st operators.Status, err error) error {
	if st == operators.Drain && !s.drained {
		s.drained = true
		fmt.Fprintf(&s.Rec.Text, "drain %d\n", s.n)
	}
	return err
}

func (s *Source) row(cells []string) {
	if s.b == nil {
		s.b = s.Pool.Get()
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
		s.b.AppendRow(s.junk(s.Types, s.b.N)...)
		s.b.Sel = append(s.b.Sel, uint16(s.b.N))
	}
	vs := make([]types.Value, len(cells))
	for i, c := range cells {
		vs[i] = testplan.Value(s.Types[i], c)
	}
	s.b.AppendRow(vs...)
}

// junk returns a row that is not selected.
func (s *Source) junk(kinds []types.Type, n int) []types.Value {
	vs := make([]types.Value, len(kinds))
	for i, t := range kinds {
		vs[i] = types.Value{Type: t, I: 1, F: -77, S: "junk", IsNull: n%4 == 0}
	}
	return vs
}
