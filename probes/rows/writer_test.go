package rows

import (
	"slices"
	"strconv"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// record has a field or a function for each kind of column.
type record struct {
	time   int64
	id     uint64
	pid    uint32
	name   []byte
	label  uint32
	amount int64
	text   string
	list   any
	more   *more
}

type more struct {
	depth uint16
	time  uint64
}

var all = []struct {
	t types.Type
	c Column[record]
}{
	{types.Timestamp, Time(func(r *record) *int64 { return &r.time })},
	{types.Bigint, Word(func(r *record) *uint64 { return &r.id })},
	{types.Bigint, Half(func(r *record) *uint32 { return &r.pid })},
	{types.Varchar, Bytes(func(r *record) *[]byte { return &r.name })},
	{types.Varchar, Code(func(r *record) *uint32 { return &r.label })},
	{types.Timestamp, TimeOf(func(r *record) int64 { return r.time - 1 })},
	{types.Bigint, Int(func(r *record) int64 { return r.amount })},
	{types.Bigint, Count(func(r *record) int64 { return r.amount })},
	{types.Double, RealOr(func(r *record) (float64, bool) { return float64(r.amount), r.amount > 1 })},
	{types.Boolean, Bool(func(r *record) bool { return r.amount > 0 })},
	{types.Varchar, String(func(r *record) string { return r.text })},
	{types.Varchar, Str(func(r *record) *string { return &r.text })},
	{types.Varchar, Text(func(r *record) string { return r.text })},
	{types.Varchar, BytesOr(func(r *record) ([]byte, bool) { return r.name, r.name != nil })},
	{types.List, List(func(r *record) any { return r.list })},
	{types.Duration, Other(types.PhysInt, false, func(c *batch.Column, _ int, r *record) { c.Int = append(c.Int, 2*r.amount) })},
	{types.Bigint, Through(func(r *record) **more { return &r.more }, Quarter(func(m *more) *uint16 { return &m.depth }))},
	{types.Timestamp, Through(func(r *record) **more { return &r.more }, Time(func(m *more) *uint64 { return &m.time }))},
	{types.Varchar, Unread[record](types.PhysCode)},
}

func newWriter(push func(*batch.Batch)) *Writer[record] {
	var columns []Column[record]
	var ts []types.Type
	for _, a := range all {
		columns, ts = append(columns, a.c), append(ts, a.t)
	}
	w := NewWriter(ts, columns, 1000)
	w.Push = push
	return w
}

func TestWriter(t *testing.T) {
	var got []*batch.Batch
	w := newWriter(func(b *batch.Batch) { got = append(got, b) })
	w.Flush() // no rows yet
	list := []types.Value{types.Str("x")}
	label := w.Code(4, "f")
	w.Put(record{time: 5, id: 1 << 40, pid: 7, name: []byte("bash"), label: label, amount: 3, text: "t", list: list, more: &more{4, 9}})
	w.Put(record{label: Null, more: &more{}})
	w.Flush()
	if len(got) != 1 || got[0].N != 2 {
		t.Fatalf("%d batches", len(got))
	}
	want := [][]string{
		{"1005", "1099511627776", "7", "bash", "f", "1004", "3", "3", "3", "true", "t", "t", "t", "bash", "[x]", "6", "4", "1009"},
		{"1000", "0", "0", "", "NULL", "999", "0", "NULL", "NULL", "false", "", "NULL", "NULL", "NULL", "NULL", "0", "0", "1000"},
	}
	for row := range 2 {
		for i := range want[row] { // except the one that is not read
			v := got[0].Cols[i].Value(row)
			if v.Type != types.Double {
				v.Type = all[i].t
			}
			s := text(v)
			if s != want[row][i] {
				t.Errorf("row %d, column %d: %s, want %s", row, i, s, want[row][i])
			}
		}
	}
	for range batch.MaxRows + 1 {
		w.Put(record{label: label, more: &more{}})
	}
	if len(got) != 2 || got[1].N != batch.MaxRows {
		t.Errorf("%d batches, of which the last is to be full", len(got))
	}
	w.Flush()
	if len(got) != 3 || got[2].N != 1 {
		t.Errorf("%d batches", len(got))
	}
}

// text formats a value for comparison.
func text(v types.Value) string {
	switch {
	case v.IsNull:
		return "NULL"
	case v.Type == types.Boolean:
		return strconv.FormatBool(v.I != 0)
	case v.Type == types.Double:
		return strconv.FormatFloat(v.F, 'g', -1, 64)
	case v.Type == types.Varchar:
		return v.S
	case v.Type == types.List:
		s := "["
		for _, e := range v.A.([]types.Value) {
			s += e.S
		}
		return s + "]"
	}
	return strconv.FormatInt(v.I, 10)
}

// With unlimited distinct texts dictionaries are replaced; those coded in
// advance stay.
func TestWriterRenewsDictionaries(t *testing.T) {
	renewed := []int{}
	m, dicts := more{}, map[*batch.Dict]bool{}
	w := newWriter(func(b *batch.Batch) { dicts[b.Cols[3].Dict] = true; b.Release() })
	w.Renewed = func(i int, old, now *batch.Dict) {
		if old.Len() <= batch.DictLimit || now.Len() > 0 {
			t.Errorf("column %d: a dictionary of %d texts replaces one of %d", i, now.Len(), old.Len())
		}
		renewed = append(renewed, i)
	}
	for i := range batch.DictLimit + 1 {
		w.Code(4, strconv.Itoa(i))
	}
	for i := range batch.DictLimit + 2*batch.MaxRows {
		w.Put(record{more: &m, name: strconv.AppendInt(nil, int64(i), 10)})
	}
	w.Flush()
	if !slices.Equal(renewed, []int{3, 13}) || len(dicts) != 2 {
		t.Errorf("renewed are %v; %d dictionaries", renewed, len(dicts))
	}
}

func TestWriterAllocatesNothing(t *testing.T) {
	w := newWriter(func(b *batch.Batch) { b.Release() })
	name, m := []byte("bash"), more{}
	var list any = []types.Value{types.Str("x")}
	fill := func() {
		for range batch.MaxRows - 1 {
			w.Put(record{time: 1, name: name, text: "t", list: list, more: &m})
		}
		for i := range w.b.Cols { // as a pool returns it
			w.b.Cols[i].Reset()
		}
		w.b.N = 0
	}
	fill() // the columns grow
	if n := testing.AllocsPerRun(20, fill); n > 0 {
		t.Errorf("%v allocations for %d rows", n, batch.MaxRows-1)
	}
}

// A provider's tables are checked against the catalog when the program starts.
func TestTablesFollowTheCatalog(t *testing.T) {
	number := Int(func(r *record) int64 { return 0 })
	float := RealOr(func(r *record) (float64, bool) { return 0, true })
	memory := func(change func(Columns[record])) func() {
		return func() {
			c := Columns[record]{"timestamp": number, "percent_used": float}
			for _, name := range []string{"total", "used", "available", "cached", "swap_used"} {
				c[name] = number
			}
			change(c)
			NewTable(catalog.MemoryUsage, c)
		}
	}
	for _, c := range []struct {
		name   string
		do     func()
		panics bool
	}{
		{"the same columns", memory(func(Columns[record]) {}), false},
		{"one more", memory(func(c Columns[record]) { c["swap"] = number }), true},
		{"one less", memory(func(c Columns[record]) { delete(c, "used") }), true},
		{"another type", memory(func(c Columns[record]) { c["used"] = float }), true},
		{"no such stream", func() { NewTable("memory", Columns[record]{}) }, true},
		{"no such column", func() { catalog.Position(catalog.MemoryUsage, "swap") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if panics := recover() != nil; panics != c.panics {
					t.Errorf("panics: %v", panics)
				}
			}()
			c.do()
		})
	}
}

func TestWriterOfValues(t *testing.T) {
	fields := []types.Field{{Name: "loss", Type: types.Boolean}, {Name: "cause", Type: types.Varchar}, {Name: "n", Type: types.Bigint}}
	spec := &plan.Acquire{Stream: catalog.SysDrops, Out: types.Schema{Fields: fields}}
	w, err := Values(catalog.SysDrops).Writer(spec, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	w.Push = func(b *batch.Batch) {
		for row := range b.N {
			for i := range b.Cols {
				got = append(got, text(b.Cols[i].Value(row)))
			}
		}
	}
	w.Put(Row{types.Time(1), types.Int(2), types.Str("full"), types.Int(3), types.Bool(true)})
	w.Put(Row{types.Time(1), types.Int(2), types.NullOf(types.Varchar), {}, types.Bool(false)})
	w.Flush()
	if want := []string{"true", "full", "3", "false", "NULL", "NULL"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	spec.Out.Fields = append(fields, types.Field{Name: "m", Type: types.Bigint})
	if _, err := Values(catalog.SysDrops).Writer(spec, 0); err == nil || err.Error() != "sys.drops has no column m of type BIGINT" {
		t.Errorf("a column that it lacks: %v", err)
	}
}

// BenchmarkWriter writes rows of eight usual columns: by fields of the record, and by
// functions.
func BenchmarkWriter(b *testing.B) {
	run := func(name string, columns ...Column[record]) {
		b.Run(name, func(b *testing.B) {
			ts := []types.Type{types.Timestamp, types.Bigint, types.Bigint, types.Varchar}
			w := NewWriter(slices.Concat(ts, ts), columns, 1000)
			w.Push = func(b *batch.Batch) { b.Release() }
			r := &record{time: 1, id: 2, pid: 3, name: []byte("bash"), text: "bash"}
			b.ReportAllocs()
			for b.Loop() {
				w.Add(r)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	fields := []Column[record]{Time(func(r *record) *int64 { return &r.time }), Word(func(r *record) *uint64 { return &r.id }),
		Half(func(r *record) *uint32 { return &r.pid }), Bytes(func(r *record) *[]byte { return &r.name })}
	functions := []Column[record]{TimeOf(func(r *record) int64 { return r.time }), Int(func(r *record) int64 { return int64(r.id) }),
		Int(func(r *record) int64 { return int64(r.pid) }), String(func(r *record) string { return r.text })}
	run("fields", slices.Concat(fields, fields)...)
	run("functions", slices.Concat(functions, functions)...)
}
