package duckdbpeer

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/duckdb/duckdb-go/v2"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

const rowCount = 1 << 23

// data is the rows of a benchmark: name i is names[offsets[i]:offsets[i+1]].
type data struct {
	names   []byte
	offsets []uint32
	x       []int64
}

func generate(keys int, format string) *data {
	rng := rand.New(rand.NewPCG(7, uint64(keys)))
	d := &data{offsets: []uint32{0}}
	for range rowCount {
		d.names = fmt.Appendf(d.names, format, rng.IntN(keys))
		d.offsets = append(d.offsets, uint32(len(d.names)))
		d.x = append(d.x, rng.Int64N(100))
	}
	return d
}

func (d *data) name(i int) string { return string(d.names[d.offsets[i]:d.offsets[i+1]]) }

// summary of a result, by which the two engines are compared.
type summary struct{ groups, count, sum int64 }

// query is SELECT name, COUNT(*), SUM(x) FROM rows WHERE x < 50 GROUP BY name.
// The planner gives the predicate to the leaf, as for every source.
func query() (*plan.Aggregate, *plan.Acquire) {
	x := &plan.Col{Index: 1, Name: "x", T: types.Bigint}
	rows := &plan.Acquire{
		Stream: "rows",
		Out: types.Schema{Time: -1, Fields: []types.Field{
			{Name: "name", Type: types.Varchar}, {Name: "x", Type: types.Bigint}}},
		Filter: &plan.Call{Fn: "<", T: types.Boolean, Args: []plan.Expr{x, &plan.Const{V: types.Int(50)}}},
	}
	return &plan.Aggregate{
		Input: rows,
		Keys:  []plan.Expr{&plan.Col{Name: "name", T: types.Varchar}},
		Aggs:  []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}, {Fn: "sum", Args: []plan.Expr{x}, T: types.Bigint}},
		Out: types.Schema{Time: -1, Fields: []types.Field{
			{Name: "name", Type: types.Varchar}, {Name: "count", Type: types.Bigint}, {Name: "sum", Type: types.Bigint}}},
	}, rows
}

// sink reads the result.
type sink struct{ summary }

func (s *sink) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	s.groups += int64(b.Len())
	for i := range b.Len() {
		s.count += b.Cols[1].Int[b.Row(i)]
		s.sum += b.Cols[2].Int[b.Row(i)]
	}
	return operators.More, nil
}

func (s *sink) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (s *sink) Close(context.Context, int) error { return nil }

// ours runs the query over d: filter, dictionary, aggregate, result. With
// pushed the source applies the filter before it codes names, as DuckDB's scan
// does; else it codes all of them and the filter is an operator.
func ours(ctx context.Context, d *data, pushed bool) (summary, error) {
	root, rows := query()
	out := &sink{}
	left := rows.Filter
	if pushed {
		left = nil
	}
	g, err := graph.Build(root, out, &operators.Options{Residual: func(*plan.Acquire) plan.Expr { return left }})
	if err != nil {
		return summary{}, err
	}
	filter, err := expr.CompileFilter(rows.Filter, rows.Out.Types())
	if err != nil {
		return summary{}, err
	}
	pool, leaf := batch.NewPool(rows.Out.Types()), g.Leaves[0]
	selection := make([]uint16, 0, batch.MaxRows)
	for from := 0; from < rowCount; from += batch.MaxRows {
		b := pool.Get()
		b.N = batch.MaxRows
		b.Cols[1].Int = d.x[from : from+batch.MaxRows] // as it lies, as DuckDB reads its own
		c, offsets := &b.Cols[0], d.offsets[from:from+batch.MaxRows+1]
		c.Code = slices.Grow(c.Code, batch.MaxRows)[:batch.MaxRows]
		if pushed {
			if b.Sel, err = filter.Select(b, selection[:0]); err != nil {
				return summary{}, err
			}
			c.Dict.CodeRows(c.Code, d.names, offsets, b.Sel)
		} else {
			c.Dict.CodeOffsets(c.Code, d.names, offsets)
		}
		c.Values = c.Dict.Values()
		if _, err := leaf.Op.Push(ctx, leaf.Port, b); err != nil {
			return summary{}, err
		}
		b.Release()
	}
	err = leaf.Op.Close(ctx, leaf.Port)
	return out.summary, err
}

const duckQuery = `SELECT count(*), sum(n)::BIGINT, sum(s)::BIGINT FROM
	(SELECT name, count(*) AS n, sum(x) AS s FROM rows WHERE x < 50 GROUP BY name)`

// load puts d into a table in memory.
func load(t testing.TB, d *data) database {
	db := open(t)
	fill(t, db, "rows", "name VARCHAR, x BIGINT", len(d.x), func(i int) []driver.Value { return []driver.Value{d.name(i), d.x[i]} })
	return db
}

// database is one in memory.
type database struct {
	*sql.DB
	connector *duckdb.Connector
}

func open(t testing.TB) database {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec("SET threads = 1"); err != nil {
		t.Fatal(err)
	}
	return database{db, connector}
}

// fill makes a table of n rows.
func fill(t testing.TB, db database, table, columns string, n int, row func(i int) []driver.Value) {
	if _, err := db.Exec(fmt.Sprintf("CREATE TABLE %s (%s)", table, columns)); err != nil {
		t.Fatal(err)
	}
	conn, err := db.connector.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	app, err := duckdb.NewAppenderFromConn(conn, "", table)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := app.AppendRow(row(i)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Close(); err != nil {
		t.Fatal(err)
	}
}

func theirs(db database) (s summary, err error) {
	err = db.QueryRow(duckQuery).Scan(&s.groups, &s.count, &s.sum)
	return s, err
}

// BenchmarkGroup takes turns, a run of ours after a run of theirs, so that
// what else the machine does meets both; it fails if the results differ.
func BenchmarkGroup(b *testing.B) {
	for _, f := range []struct{ name, format string }{{"short", "func_%d"}, {"long", "storage::engine::commit_%d"}} {
		for _, keys := range []int{10, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("names=%s/keys=%d", f.name, keys), func(b *testing.B) { compare(b, generate(keys, f.format)) })
		}
	}
}
