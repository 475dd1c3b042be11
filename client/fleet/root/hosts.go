package root

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// selected returns the hosts that a query can have rows of; nil: any statement.
func (d *directory) selected(q *parser.Query, text string) (all []*host) {
	may := func(string, map[string]string) bool { return true }
	if q != nil {
		may = planner.ChooseHosts(q, text, expr.EvalConst)
	}
	return slices.DeleteFunc(d.list(), func(h *host) bool { return !may(h.Name, h.Labels) })
}

// hostColumns are the columns of SHOW HOSTS.
var hostColumns = []wire.Column{
	{Name: "host", Type: types.Varchar}, {Name: "labels", Type: types.Varchar}, {Name: "version", Type: types.Varchar},
	{Name: "kernel", Type: types.Varchar}, {Name: "last_heard", Type: types.Duration}, {Name: "queries", Type: types.Bigint}, {Name: "percent_cpu", Type: types.Double},
}

// table returns the result of SHOW HOSTS.
func (d *directory) table(st *parser.Show) (wire.Result, error) {
	t := &table{cols: hostColumns, began: time.Now()}
	for _, h := range d.list() {
		if is, err := like(types.Str(h.Name), st.Like); err != nil {
			return nil, err
		} else if !is {
			continue
		}
		row := []types.Value{types.Str(h.Name), types.Str(labels(h.Labels)), types.Str(h.Version), types.Str(h.Kernel), types.NullOf(types.Duration), types.NullOf(types.Bigint), types.NullOf(types.Double)}
		if !h.heard.IsZero() {
			row[4] = types.Value{Type: types.Duration, I: int64(time.Since(h.heard))}
		}
		if d.alive(h) {
			row[5], row[6] = types.Int(int64(h.last.Queries)), types.Float(100*h.last.CPU)
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

// labels formats labels as endoscoped --labels takes them.
func labels(of map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s=%s", k, of[k]))
	}
	return strings.Join(all, ",")
}

// table is a result that is known from the beginning.
type table struct {
	cols  []wire.Column
	rows  [][]types.Value
	next  int
	began time.Time
}

func (t *table) Columns() []wire.Column { return t.cols }
func (t *table) Message() string        { return "" }
func (*table) Info() wire.Info          { return wire.Info{} }
func (t *table) Stop()                  {}
func (t *table) Close() error           { return nil }

func (t *table) Summary() wire.Summary {
	return wire.Summary{Rows: uint64(len(t.rows)), Elapsed: time.Since(t.began)}
}

func (t *table) Next(context.Context) (wire.Event, error) {
	if t.next == len(t.rows) {
		return wire.Event{}, io.EOF
	}
	kinds := make([]types.Type, len(t.cols))
	for i, c := range t.cols {
		kinds[i] = c.Type
	}
	b := batch.New(kinds)
	for ; t.next < len(t.rows) && b.N < batch.MaxRows; t.next++ {
		b.AppendRow(t.rows[t.next]...)
	}
	return wire.Event{Kind: wire.Rows, Batch: b}, nil
}
