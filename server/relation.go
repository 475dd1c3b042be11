package server

import (
	"context"
	"io"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// relation is a small table that answers SHOW, DESCRIBE and EXPLAIN: a
// wire.Result whose rows are there already.
type relation struct {
	columns []wire.Column
	rows    [][]types.Value
	notices []string
	next    int
	began   time.Time
}

func newRelation(columns ...wire.Column) *relation {
	return &relation{columns: columns, began: time.Now()}
}

func (r *relation) add(vs ...types.Value) { r.rows = append(r.rows, vs) }

func (r *relation) Columns() []wire.Column { return r.columns }
func (r *relation) Message() string        { return "" }
func (r *relation) Stop()                  {}
func (r *relation) Close() error           { return nil }
func (r *relation) Summary() wire.Summary {
	return wire.Summary{Rows: uint64(len(r.rows)), Elapsed: time.Since(r.began)}
}

func (r *relation) Next(context.Context) (wire.Event, error) {
	if len(r.notices) > 0 {
		text := r.notices[0]
		r.notices = r.notices[1:]
		return wire.Event{Kind: wire.Notice, Text: text}, nil
	}
	if r.next == len(r.rows) {
		return wire.Event{}, io.EOF
	}
	kinds := make([]types.Type, len(r.columns))
	for i, c := range r.columns {
		kinds[i] = c.Type
	}
	b := batch.New(kinds)
	for b.N < batch.MaxRows && r.next < len(r.rows) {
		b.AppendRow(r.rows[r.next]...)
		r.next++
	}
	return wire.Event{Kind: wire.Rows, Batch: b}, nil
}

// text, number and the like make columns of relations.
func text(name string) wire.Column   { return wire.Column{Name: name, Type: types.Varchar} }
func number(name string) wire.Column { return wire.Column{Name: name, Type: types.Bigint} }
