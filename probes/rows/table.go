package rows

import (
	"fmt"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Columns are the columns of one or more streams, by name.
type Columns[T any] map[string]Column[T]

// Table defines how the columns of a stream are computed from records of type
// T.
type Table[T any] struct {
	stream  *catalog.Stream
	columns Columns[T]
}

// NewTable returns the table of a stream. It panics if the columns are not
// exactly those of the catalog.
func NewTable[T any](stream string, columns Columns[T]) *Table[T] {
	return NewTables([]string{stream}, columns)[stream]
}

// NewTables returns the tables of streams with the same record type. It panics
// if a column of a stream is missing or has another type, and if a column
// belongs to none of the streams.
func NewTables[T any](streams []string, columns Columns[T]) map[string]*Table[T] {
	tables, used := map[string]*Table[T]{}, map[string]bool{}
	for _, name := range streams {
		s := catalog.Must(name)
		check(s, columns, used)
		tables[name] = &Table[T]{s, columns}
	}
	for name := range columns {
		if !used[name] {
			panic(fmt.Sprintf("rows: the catalog has no column %s of %v", name, streams))
		}
	}
	return tables
}

// NewTableOf returns the table of a stream that is not listed in the catalog,
// since users cannot name it.
func NewTableOf[T any](s *catalog.Stream, columns Columns[T]) *Table[T] {
	check(s, columns, map[string]bool{})
	return &Table[T]{s, columns}
}

func check[T any](s *catalog.Stream, columns Columns[T], used map[string]bool) {
	for _, c := range s.All() {
		made, ok := columns[c.Name]
		if !ok {
			panic(fmt.Sprintf("rows: column %s of %s is not made", c.Name, s.Name))
		}
		if made.stores != c.Type.Physical() {
			panic(fmt.Sprintf("rows: column %s of %s is %s", c.Name, s.Name, c.Type))
		}
		used[c.Name] = true
	}
}

// Fields returns all columns of the stream, in the order of the catalog.
func (t *Table[T]) Fields() []types.Field { return t.stream.Fields() }

// Check returns an error if the specification requests a column that the stream
// lacks.
func (t *Table[T]) Check(spec *plan.Acquire) error {
	for _, f := range spec.Out.Fields {
		if c, ok := t.stream.Column(f.Name); !ok || c.Type != f.Type {
			return plan.Errorf(spec.Start, spec.Stop, "%s has no column %s of type %s", t.stream.Name, f.Name, f.Type)
		}
	}
	return nil
}

// Writer returns a writer of the columns that a specification requests. offset
// is added to the times of records.
func (t *Table[T]) Writer(spec *plan.Acquire, offset int64) (*Writer[T], error) {
	if err := t.Check(spec); err != nil {
		return nil, err
	}
	columns := make([]Column[T], len(spec.Out.Fields))
	for i, f := range spec.Out.Fields {
		columns[i] = t.columns[f.Name]
	}
	return NewWriter(spec.Out.Types(), columns, offset), nil
}

// All returns all columns of some records as values. It is slow, for a few
// records.
func (t *Table[T]) All(records []T) [][]types.Value {
	fields := t.Fields()
	columns := make([]Column[T], len(fields))
	for i, f := range fields {
		columns[i] = t.columns[f.Name]
	}
	var out [][]types.Value
	w := NewWriter(types.Schema{Fields: fields}.Types(), columns, 0)
	w.Push = func(b *batch.Batch) {
		for row := range b.N {
			vs := make([]types.Value, len(b.Cols))
			for i := range b.Cols {
				vs[i] = b.Cols[i].Value(row)
			}
			out = append(out, vs)
		}
		b.Release()
	}
	for i := range records {
		w.Add(&records[i])
	}
	w.Flush()
	return out
}
