package testplan

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Expect compares the output of a play with lines, ignoring indentation.
func Expect(t *testing.T, got, want string) {
	t.Helper()
	if want = Unindent(want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func Unindent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func Value(t types.Type, s string) types.Value {
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
		v.I = Number(s)
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

func Number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err) // a mistake in a script
	}
	return n
}

// Recorder is the sink of a play.
type Recorder struct {
	Schema types.Schema
	Text   strings.Builder
}

func (r *Recorder) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for i := range b.Len() {
		for c := range b.Cols {
			if c > 0 {
				r.Text.WriteByte(' ')
			}
			r.Text.WriteString(Cell(b.Cols[c].Value(b.Row(i))))
		}
		r.Text.WriteByte('\n')
	}
	return operators.More, nil
}

func Cell(v types.Value) string {
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

func (r *Recorder) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	switch s.Kind {
	case operators.Watermark:
		fmt.Fprintf(&r.Text, "wm %d\n", s.Time)
	case operators.Tick:
		word := "tick"
		if s.Preview {
			word = "preview"
		}
		fmt.Fprintf(&r.Text, "%s %d\n", word, s.Time)
	case operators.Gap:
		fmt.Fprintf(&r.Text, "gap %s %d\n", s.Cause, s.N)
	case operators.Barrier:
		fmt.Fprintf(&r.Text, "barrier %d\n", s.ID)
	case operators.Flush:
		word := "flush"
		if s.Preview {
			word = "flush preview"
		}
		fmt.Fprintln(&r.Text, word)
	}
	return operators.More, nil
}

func (r *Recorder) Close(context.Context, int) error {
	r.Text.WriteString("close\n")
	return nil
}

func NewPool(n plan.Node) *batch.Pool { return batch.NewPool(n.Schema().Types()) }
