package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// recorder is a sink that records rows, and checks the watermarks.
type recorder struct {
	schema     types.Schema
	rows       [][]types.Value
	batches    int
	watermarks []int64
	late       int // rows below the watermark
	faults     []string
	places     []int    // of the reports: the number of rows before each
	counts     []uint64 // of the reports: faults
	err        error
	ended      chan struct{}
}

func newRecorder(s types.Schema) *recorder {
	return &recorder{schema: s, ended: make(chan struct{})}
}

func (r *recorder) Push(b *batch.Batch) {
	r.batches++
	for i := range b.Len() {
		var row []types.Value
		for c := range b.Cols {
			row = append(row, b.Cols[c].Value(b.Row(i)))
		}
		if n := len(r.watermarks); n > 0 && r.schema.Time >= 0 && row[r.schema.Time].I < r.watermarks[n-1] {
			r.late++
		}
		r.rows = append(r.rows, row)
	}
	b.Release()
}

func (*recorder) Partial(b *batch.Batch)         { b.Release() }
func (r *recorder) Watermark(t int64)            { r.watermarks = append(r.watermarks, t) }
func (r *recorder) Lost(cause string, n uint64)  { r.fault("lost ", cause, n) }
func (r *recorder) Count(cause string, n uint64) { r.fault("", cause, n) }

// fault adds to the count of a fault, and records before which row it was reported.
func (r *recorder) fault(kind, cause string, n uint64) {
	r.places, r.counts = append(r.places, len(r.rows)), append(r.counts, n)
	for i, have := range r.faults {
		var before uint64
		if _, err := fmt.Sscanf(have, kind+"%d: ", &before); err == nil && strings.HasSuffix(have, ": "+cause) {
			r.faults[i] = fmt.Sprintf("%s%d: %s", kind, before+n, cause)
			return
		}
	}
	r.faults = append(r.faults, fmt.Sprintf("%s%d: %s", kind, n, cause))
}
func (r *recorder) End(err error) { r.err = err; close(r.ended) }

// text prints the rows, a line each.
func (r *recorder) text() string {
	var b strings.Builder
	for _, row := range r.rows {
		for i, v := range row {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(plan.FormatValue(v))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func fileSpec(t testing.TB, path string) *plan.Acquire {
	t.Helper()
	s, err := Describe(path)
	if err != nil {
		t.Fatal(err)
	}
	return &plan.Acquire{Stream: "file", Out: s, Args: []plan.Const{{V: types.Str(path)}}}
}

func prepare(t testing.TB, spec *plan.Acquire) probes.Source {
	t.Helper()
	src, err := New().Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// run replays all of spec.
func run(t testing.TB, spec *plan.Acquire) *recorder {
	t.Helper()
	src, r := prepare(t, spec), newRecorder(spec.Out)
	if err := src.Start(t.Context(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		t.Fatal("not at the end after a minute")
	}
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if r.late > 0 {
		t.Errorf("%d rows came after a watermark above them", r.late)
	}
	return r
}

func TestReplay(t *testing.T) {
	many := strings.Repeat("1,2\n", SampleRows)
	for _, c := range []struct {
		name, file, text string
		want             string // the last rows
		faults           []string
	}{
		{"CSV", "a.csv", "i,f,b,t,s\n1,1.5,true,2024-02-29T12:00:00Z,x\n\n,,,,\n-2,2,FALSE,2024-01-01T00:00:00.5+01:00,\"it's\n\"\"1\"\"\"",
			"1 1.5 true '2024-02-29T12:00:00Z' 'x' 2\nnull null null null null 4\n-2 2 false '2023-12-31T23:00:00.5Z' 'it''s\n\"1\"' 5\n", nil},
		{"JSON", "a.jsonl", `{"i":1,"f":1,"s":"a\u00e9\n","n":[1, {"a":2}]}` + "\n\n" + `{"s":"","f":1.5,"i":null}` + "\n" + `{"n":"x","s":null}`,
			"1 1 'aé\n' '[1, {\"a\":2}]' 1\nnull 1.5 '' null 3\nnull null null 'x' 4\n", nil},
		{"time in ns", "a.csv", "timestamp\n1500000000000000001\n", "'2017-07-14T02:40:00.000000001Z'\n", nil},
		{"time in seconds", "a.csv", "timestamp\n1500000000\n1500000000.000000001\n",
			"'2017-07-14T02:40:00Z'\n'2017-07-14T02:40:00.000000001Z'\n", nil},
		{"ragged", "a.csv", "a,b\n1,2\n3\n4,5,6\n7,8\n", "1 2 2\n3 null 3\n4 5 4\n7 8 5\n",
			[]string{"2: row that has not 2 fields, first on line 3"}},
		{"unreadable", "a.csv", "a,b\n" + many + "x,y\n3,4\n5,9223372036854775808\n", "null null 1002\n3 4 1003\n5 null 1004\n",
			[]string{"1: unreadable value in column a, first on line 1002", "2: unreadable value in column b, first on line 1002"}},
		{"no timestamp", "a.csv", "timestamp,a\n1500000000000000000,1\n,2\n1500000001000000000,3\n",
			"'2017-07-14T02:40:00Z' 1\n'2017-07-14T02:40:01Z' 3\n",
			[]string{"lost 1: row without a readable timestamp, first on line 3"}},
		{"times that windows could not reach beyond", "a.csv", "timestamp,a\n2261-04-11T23:47:16Z,1\n2235-12-31T00:00:00Z,2\n1704-12-31T00:00:00Z,3\n1700-01-01T00:00:00Z,4\n",
			"'2235-12-31T00:00:00Z' 2\n'1704-12-31T00:00:00Z' 3\n",
			[]string{"lost 2: row without a readable timestamp, first on line 2"}},
		{"JSON of other types", "a.jsonl", strings.Repeat(`{"i":1,"f":1.5,"b":true,"s":"x"}`+"\n", SampleRows) +
			`{"i":"1","f":"1.5","b":"true","s":true}` + "\n" + `{"i":1.5,"f":[],"b":1,"s":{"a":1}}`,
			"null null null 'true' 1001\nnull null null '{\"a\":1}' 1002\n",
			[]string{"2: unreadable value in column i, first on line 1001", "2: unreadable value in column f, first on line 1001",
				"2: unreadable value in column b, first on line 1001"}},
		{"JSON bad lines and late keys", "a.jsonl", strings.Repeat(`{"a":1}`+"\n", SampleRows) + "{\n" + `{"b":1,"a":2,"c":3}` + "\n[]\n{\"a\":3}",
			"2 1002\n3 1004\n",
			[]string{"lost 2: line that is no JSON object, first on line 1001", "2: key that the first 1000 rows do not have, first on line 1002"}},
		{"a quote that is not closed", "a.csv", "a,b\n1,2\n3,\"4\n5,6\n", "1 2 2\n",
			[]string{"lost 1: row with a quote that is not closed, first on line 3"}},
		{"header only", "a.csv", "a,b\n", "", nil},
		{"empty", "a.jsonl", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			r := run(t, fileSpec(t, write(t, c.file, c.text)))
			if r.err != nil {
				t.Fatal(r.err)
			}
			if got := r.text(); !strings.HasSuffix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got\n%swant\n%s", got[max(0, len(got)-len(c.want)):], c.want)
			}
			if diff := cmp.Diff(c.faults, r.faults); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A row that does not fit is reported at its place, so that LIMIT need not count those after
// its last row; where there are very many, before its place, so that none is missing.
func TestFaultsAreReportedInOrder(t *testing.T) {
	text := `{"a":1}` + "\nbad\n" + `{"a":2}` + "\n" + `{"a":3}` + "\nbad\nbad\n"
	r := run(t, fileSpec(t, write(t, "a.jsonl", text)))
	if want := []int{1, 3}; !slices.Equal(r.places, want) {
		t.Errorf("reported after %v rows, want %v", r.places, want)
	}
	many := `{"a":0}` + "\n" + strings.Repeat("bad\n"+`{"a":1}`+"\n", 3000)
	r = run(t, fileSpec(t, write(t, "b.jsonl", many)))
	if want := []string{"lost 3000: line that is no JSON object, first on line 2"}; !slices.Equal(r.faults, want) {
		t.Errorf("faults %v", r.faults)
	}
	var reported uint64 // row i comes after i faults
	for i, at := range append(r.places, len(r.rows)) {
		if uint64(at) > reported+1 {
			t.Fatalf("%d rows were pushed after %d faults", at, reported)
		}
		if i < len(r.counts) {
			reported += r.counts[i]
		}
	}
	if r.batches > maxSplits+8 {
		t.Errorf("the faults divide the rows into %d batches", r.batches)
	}
}

// A file that becomes shorter while it is read is an error: where it ends now is not its end.
func TestAFileThatIsCutShort(t *testing.T) {
	for name, text := range map[string]string{"a.csv": "a,b\n" + strings.Repeat("1,2\n", 1<<17), "a.jsonl": strings.Repeat(`{"a":1}`+"\n", 1<<17)} {
		path := write(t, name, text)
		r := newRecorder(fileSpec(t, path).Out)
		src := prepare(t, fileSpec(t, path))
		cut := cutting{recorder: r, cut: func() {
			if err := os.Truncate(path, int64(len(text)/2)); err != nil {
				t.Error(err)
			}
		}}
		if err := src.Start(t.Context(), &cut, probes.Options{}); err != nil {
			t.Fatal(err)
		}
		<-r.ended
		if r.err == nil || !strings.Contains(r.err.Error(), name+": the file became shorter while it was read") {
			t.Errorf("%s: %v", name, r.err)
		}
		if err := src.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// cutting calls cut at the first batch.
type cutting struct {
	*recorder
	cut func()
}

func (c *cutting) Push(b *batch.Batch) {
	if c.batches == 0 {
		c.cut()
	}
	c.recorder.Push(b)
}

func TestOnlyTheColumnsWanted(t *testing.T) {
	path := write(t, "a.csv", "a,b,timestamp\nx,1,2\ny,2,1\n")
	spec := fileSpec(t, path)
	spec.Out = types.Schema{Fields: []types.Field{spec.Out.Fields[1], spec.Out.Fields[0]}, Time: -1}
	if got, want := run(t, spec).text(), "1 'x'\n2 'y'\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	spec.Out = types.Schema{Time: -1} // COUNT(*)
	if r := run(t, spec); len(r.rows) != 2 {
		t.Errorf("%d rows without columns, want 2", len(r.rows))
	}
}

// In any order of a file, no row is below a watermark, and the watermark is the
// greatest with that property.
func TestWatermarkIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 4*batch.MaxRows+1).Draw(rt, "rows")
		disorder := rapid.Int64Range(0, 5000).Draw(rt, "disorder")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var b strings.Builder
		b.WriteString("v,timestamp\n")
		var times []int64
		for i := range n {
			at := int64(i) + rng.Int64N(disorder+1)
			times = append(times, at)
			fmt.Fprintf(&b, "%d,%d\n", i, at)
		}
		if n == 0 {
			return
		}
		r := run(t, fileSpec(t, write(t, "a.csv", b.String())))
		if r.err != nil || len(r.rows) != n || r.late > 0 {
			rt.Fatalf("%d rows of %d, %d late, %v", len(r.rows), n, r.late, r.err)
		}
		var want []int64
		for i := batch.MaxRows; i < n; i += batch.MaxRows {
			want = append(want, slices.Min(times[i:]))
		}
		if !slices.Equal(r.watermarks, want) {
			rt.Fatalf("watermarks %v, want %v", r.watermarks, want)
		}
	})
}

func TestLineNumbersAreEventTime(t *testing.T) {
	r := run(t, fileSpec(t, write(t, "a.csv", "a\n"+strings.Repeat("x\n", 2500))))
	if want := []int64{1026, 2050}; !slices.Equal(r.watermarks, want) {
		t.Errorf("watermarks %v, want %v", r.watermarks, want)
	}
}

func TestMillionRows(t *testing.T) {
	n := int64(testenv.Times(1_000_000))
	var b strings.Builder
	b.WriteString("timestamp,pid,name,value\n")
	var sum int64
	for i := range n {
		fmt.Fprintf(&b, "%d,%d,name%d,%d.5\n", 1_700_000_000_000_000_000+i*1000, i%7, i%100_000, i)
		sum += i % 7
	}
	spec := fileSpec(t, write(t, "a.csv", b.String()))
	src := prepare(t, spec)
	s := &summer{ended: make(chan struct{})}
	if err := src.Start(t.Context(), s, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if s.rows != n || s.pids != sum || s.values != float64(n*(n-1)/2+n/2) {
		t.Errorf("%d rows, pids %d, values %f; want %d, %d, %f", s.rows, s.pids, s.values, n, sum, float64(n*(n-1)/2+n/2))
	}
	if s.wrongName >= 0 {
		t.Errorf("row %d has another row's name", s.wrongName)
	}
	// 100,000 names do not stay in one dictionary.
	if s.largestDict > batch.DictLimit+batch.MaxRows {
		t.Errorf("a dictionary grew to %d strings", s.largestDict)
	}
	src.Stop()
}

// summer is a sink that computes a sum.
type summer struct {
	rows, pids  int64
	values      float64
	wrongName   int64
	largestDict int
	ended       chan struct{}
}

func (s *summer) Push(b *batch.Batch) {
	if s.rows == 0 {
		s.wrongName = -1
	}
	for i := range b.N {
		s.pids += b.Cols[1].Int[i]
		name := b.Cols[2].Values[b.Cols[2].Code[i]]
		s.largestDict = max(s.largestDict, len(b.Cols[2].Values))
		if name != fmt.Sprintf("name%d", (s.rows+int64(i))%100_000) && s.wrongName < 0 {
			s.wrongName = s.rows + int64(i)
		}
		s.values += b.Cols[3].Float[i]
	}
	s.rows += int64(b.N)
	b.Release()
}

func (*summer) Partial(b *batch.Batch) { b.Release() }
func (s *summer) Watermark(int64)      {}
func (s *summer) Lost(string, uint64)  {}
func (s *summer) Count(string, uint64) {}
func (s *summer) End(error)            { close(s.ended) }

func TestSeries(t *testing.T) {
	n := types.Schema{Fields: []types.Field{{Name: "n", Type: types.Bigint}}, Time: -1}
	for _, last := range []int64{-5, 0, 1, 1023, 1024, 1025, 5000} {
		r := run(t, &plan.Acquire{Stream: "series", Out: n, Args: []plan.Const{{V: types.Int(last)}}})
		if int64(len(r.rows)) != max(0, last) || r.err != nil {
			t.Fatalf("%d rows of series(%d), %v", len(r.rows), last, r.err)
		}
		for i, row := range r.rows {
			if row[0].I != int64(i)+1 {
				t.Fatalf("row %d of series(%d) is %d", i, last, row[0].I)
			}
		}
		if r := run(t, &plan.Acquire{Stream: "series", Args: []plan.Const{{V: types.Int(last)}}}); int64(len(r.rows)) != max(0, last) {
			t.Fatalf("%d rows of series(%d) without its column", len(r.rows), last)
		}
	}
}

// slow is a sink that accepts a batch when released.
type slow struct {
	recorder
	let chan struct{}
	mu  sync.Mutex

	offered atomic.Int64 // batches, accepted or not
}

func (s *slow) Push(b *batch.Batch) {
	s.offered.Add(1)
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorder.Push(b)
}

func TestReplayWaitsForItsSinkAndStops(t *testing.T) {
	defer goleak.VerifyNone(t)
	spec := &plan.Acquire{Stream: "series", Args: []plan.Const{{V: types.Int(1 << 62)}},
		Out: types.Schema{Fields: []types.Field{{Name: "n", Type: types.Bigint}}, Time: -1}}
	src := prepare(t, spec)
	if src.Info().Live {
		t.Error("a series is live")
	}
	s := &slow{recorder: *newRecorder(spec.Out), let: make(chan struct{})}
	if err := src.Start(context.Background(), s, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.let <- struct{}{}
	}
	testenv.Until(t, "a fourth batch waits", func() bool { return s.offered.Load() == 4 })
	s.mu.Lock()
	if s.batches != 3 {
		t.Errorf("%d batches taken, 3 let", s.batches)
	}
	s.mu.Unlock()
	stopped := make(chan error)
	go func() { stopped <- src.Stop() }()
	for waiting := true; waiting; { // further batches may arrive until Stop takes effect
		select {
		case s.let <- struct{}{}:
		case err := <-stopped:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		}
	}
	<-s.ended
	if s.err != nil {
		t.Error(s.err)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	path := write(t, "a.csv", "a\n1\n")
	column := func(name string, typ types.Type) types.Schema {
		return types.Schema{Fields: []types.Field{{Name: name, Type: typ}}}
	}
	for _, c := range []struct {
		spec plan.Acquire
		want string
	}{
		{plan.Acquire{Stream: "file"}, "file takes the path of a file"},
		{plan.Acquire{Stream: "file", Args: []plan.Const{{V: types.Int(1)}}}, "file takes the path of a file"},
		{plan.Acquire{Stream: "file", Args: []plan.Const{{V: types.Str("x.csv")}}}, "x.csv: no such file"},
		{plan.Acquire{Stream: "file", Args: []plan.Const{{V: types.Str(path)}}, Out: column("b", types.Bigint)}, path + " has no column b of type BIGINT"},
		{plan.Acquire{Stream: "file", Args: []plan.Const{{V: types.Str(path)}}, Out: column("a", types.Varchar)}, path + " has no column a of type VARCHAR"},
		{plan.Acquire{Stream: "series"}, "series takes one whole number"},
		{plan.Acquire{Stream: "series", Args: []plan.Const{{V: types.Float(1)}}}, "series takes one whole number"},
		{plan.Acquire{Stream: "series", Args: []plan.Const{{V: types.Int(1)}}, Out: column("m", types.Bigint)}, "series has no column m of type BIGINT"},
		{plan.Acquire{Stream: "cpu_usage"}, "cpu_usage cannot be replayed"},
	} {
		c.spec.Start, c.spec.Stop = 14, 20
		_, err := New().Prepare(t.Context(), &c.spec)
		var pe *plan.Error
		if !errors.As(err, &pe) || pe.Msg != c.want || pe.Start != 14 || pe.Stop != 20 {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
