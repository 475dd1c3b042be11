package uprobe

import (
	"fmt"
	bigint "math/big"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"endoscope/operators/expr/exprtest"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/codegen"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/program"
)

// aggregate adds the first stage of an aggregate to an acquisition.
func aggregate(a *plan.Acquire, pane time.Duration, keys []plan.Expr, aggs ...plan.Agg) *plan.Acquire {
	var bk []plan.Expr
	for _, k := range keys {
		bk = append(bk, bound(k, a.Out))
	}
	for i := range aggs {
		for j, x := range aggs[i].Args {
			aggs[i].Args[j] = bound(x, a.Out)
		}
		if aggs[i].Filter != nil {
			aggs[i].Filter = bound(aggs[i].Filter, a.Out)
		}
	}
	p, ok := plan.NewPartial(bk, aggs, pane)
	if !ok {
		panic("an aggregate without a state")
	}
	a.Partial = p
	return a
}

func agg(fn string, args ...plan.Expr) plan.Agg {
	return plan.Agg{Fn: fn, Args: args, Star: len(args) == 0, T: types.Bigint}
}

func where(f plan.Agg, e plan.Expr) plan.Agg { f.Filter = e; return f }

// merged is the state of one aggregate of one group, from partial rows and rows.
type merged struct {
	N           int64
	Sum, Square string // of the numbers in decimal
	Value       int64  // MIN, MAX, FIRST, LAST
	Buckets     map[int64]int64
	Low, High   int64 // of quantiles

	sum, square bigint.Int
	time        int64
}

// groups merges partial rows with rows; each row is one event.
func groups(t testing.TB, spec *plan.Acquire, parts, rows [][]types.Value) map[string][]*merged {
	t.Helper()
	p := spec.Partial
	all := map[string][]*merged{}
	of := func(key []types.Value) []*merged {
		var names []string
		for _, v := range key {
			names = append(names, fmt.Sprint(v.S, v.I))
		}
		k := strings.Join(names, " ")
		if all[k] == nil {
			for range p.Aggs {
				all[k] = append(all[k], &merged{Buckets: map[int64]int64{}})
			}
		}
		return all[k]
	}
	for _, row := range parts {
		g := of(row[1 : 1+len(p.Keys)])
		at := 1 + len(p.Keys)
		for i := range p.Aggs {
			fields, _ := plan.StateFields(&p.Aggs[i])
			var w []int64
			for range fields {
				w = append(w, row[at].I)
				at++
			}
			g[i].merge(p.Aggs[i].Fn, w)
		}
	}
	for _, row := range rows {
		var key []types.Value
		for _, k := range p.Keys {
			key = append(key, value(t, k, row))
		}
		g := of(key)
		for i := range p.Aggs {
			f := &p.Aggs[i]
			if f.Filter != nil && value(t, f.Filter, row).I == 0 {
				continue
			}
			x := int64(0)
			if len(f.Args) > 0 {
				x = value(t, f.Args[0], row).I
			}
			g[i].merge(f.Fn, single(f, x, row[spec.Out.Time].I))
		}
	}
	for _, g := range all {
		for _, m := range g {
			m.Sum, m.Square = m.sum.String(), m.square.String()
		}
	}
	return all
}

func value(t testing.TB, e plan.Expr, row []types.Value) types.Value {
	v, err := exprtest.EvalRow(e, row)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// single returns the state of one value.
func single(f *plan.Agg, x, when int64) []int64 {
	switch f.Fn {
	case "count", "rate":
		return []int64{1}
	case "sum", "avg":
		return []int64{x, x >> 63, 1}
	case "min", "max":
		return []int64{x, 1}
	case "first", "last":
		return []int64{when, x, 1}
	case "stddev", "variance":
		u := uint64(max(x, -x))
		hi, lo := bits.Mul64(u, u)
		return []int64{x, x >> 63, 1, int64(lo), int64(hi), 0}
	case "histogram":
		if len(f.Params) == 0 {
			if x < 0 {
				return []int64{-1 - int64(bits.Len64(uint64(^x))), 1}
			}
			return []int64{int64(bits.Len64(uint64(x))), 1}
		}
		lo, hi, step := f.Params[0].I, f.Params[1].I, f.Params[2].I
		switch {
		case x < lo:
			return []int64{-1, 1}
		case x >= hi:
			return []int64{1<<63 - 1, 1}
		}
		return []int64{(x - lo) / step, 1}
	}
	return []int64{x, x, 1, 0}
}

// merge adds a state of plan.StateFields.
func (m *merged) merge(fn string, w []int64) {
	wide := func(lo uint64, hi *bigint.Int) *bigint.Int { // hi·2^64 + lo
		return new(bigint.Int).Add(new(bigint.Int).Lsh(hi, 64), new(bigint.Int).SetUint64(lo))
	}
	n := w[len(w)-1]
	switch fn {
	case "stddev", "variance":
		if n = w[2]; n > 0 {
			m.square.Add(&m.square, wide(uint64(w[3]), wide(uint64(w[4]), bigint.NewInt(w[5]))))
		}
		fallthrough
	case "sum", "avg":
		if n > 0 {
			m.sum.Add(&m.sum, wide(uint64(w[0]), bigint.NewInt(w[1])))
		}
	case "min":
		if n > 0 && (m.N == 0 || w[0] < m.Value) {
			m.Value = w[0]
		}
	case "max":
		if n > 0 && (m.N == 0 || w[0] > m.Value) {
			m.Value = w[0]
		}
	case "first":
		if n > 0 && (m.N == 0 || w[0] < m.time) {
			m.time, m.Value = w[0], w[1]
		}
	case "last":
		if n > 0 && (m.N == 0 || w[0] >= m.time) {
			m.time, m.Value = w[0], w[1]
		}
	case "histogram":
		if n > 0 {
			m.Buckets[w[0]] += n
		}
	case "quantile", "median":
		if n = w[2]; n > 0 {
			table, _ := codegen.Boundaries()
			m.Buckets[codegen.BucketOf(table, w[0])] += n
			if m.N == 0 || w[0] < m.Low {
				m.Low = w[0]
			}
			if m.N == 0 || w[1] > m.High {
				m.High = w[1]
			}
		}
	}
	m.N += n
}

// whole lists aggregates that the kernel computes completely.
func whole() []plan.Agg {
	x, y := col("arg0"), col("arg1")
	return []plan.Agg{
		agg("count"), agg("rate"), agg("count", y), agg("sum", x), agg("avg", y), agg("min", x), agg("max", y),
		agg("first", x), agg("last", x), agg("stddev", x), agg("variance", y),
		where(agg("count"), testplan.Call(">", x, num(3))), where(agg("sum", y), testplan.Call("=", big("%", x, num(2)), num(0))),
		where(agg("max", x), testplan.Call("=", col("function_name"), testplan.Constant("beta"))),
		agg("histogram", x), agg("quantile", y),
		where(plan.Agg{Fn: "histogram", Args: []plan.Expr{x}, Params: []types.Value{types.Int(-5), types.Int(10), types.Int(4)}}, testplan.Call("<", x, y)),
	}
}

// sizes returns CASE WHEN x < 0 THEN NULL WHEN x > 5 THEN 'large' ELSE 'small' END.
func sizes(x plan.Expr) plan.Expr {
	return &plan.Case{T: types.Varchar, Whens: []plan.When{
		{Cond: testplan.Call("<", x, num(0)), Then: &plan.Const{V: types.NullOf(types.Varchar)}},
		{Cond: testplan.Call(">", x, num(5)), Then: testplan.Constant("large")},
	}, Else: testplan.Constant("small")}
}

// quick is mixed without waiting.
var quick = strings.Replace(mixed, "usleep(30000)", "sink++", 1)

// Every aggregate and every kind of key: the kernel's states plus the rows it could not
// aggregate equal the result of a query that observes the same calls as rows.
func TestAggregatesOfCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, quick, "-O1")
	fn, tid, thread, x, y := col("function_name"), col("tid"), col("thread_name"), col("arg0"), col("arg1")
	for _, c := range []struct {
		name   string
		keys   []plan.Expr
		aggs   []plan.Agg
		how    string
		singly bool // the kernel cannot compute the product of all the arguments
	}{
		{"count by function", []plan.Expr{fn}, []plan.Agg{agg("count")}, "dense by function", false},
		{"count of all", nil, []plan.Agg{agg("count")}, "one group", false},
		{"groups alone", []plan.Expr{fn}, nil, "dense by function", false},
		{"all by nothing", nil, nil, "one group", true},
		{"all by function and module", []plan.Expr{fn, col("class"), col("module")}, nil, "dense by function", true},
		{"all by thread", []plan.Expr{tid}, nil, "hash by tid", true},
		{"all by name and function", []plan.Expr{thread, fn, col("process")}, nil, "hash by thread_name, function_name, process", true},
		{"by an argument", []plan.Expr{x, col("pid")}, []plan.Agg{agg("count"), agg("sum", y)}, "hash by arg0, pid", false},
		{"by an expression", []plan.Expr{big("*", x, y)}, []plan.Agg{agg("count"), agg("min", big("%", x, num(7)))}, "hash by arg0 * arg1", true},
		{"histogram alone", []plan.Expr{fn}, []plan.Agg{agg("histogram", x)}, "hash by function_name and bucket", false},
		{"median of all", nil, []plan.Agg{agg("median", y), agg("quantile", y)}, "one group, quantiles exact to 1000 values of a group and 131072 of all", false},
		{"a filtered histogram", []plan.Expr{fn}, []plan.Agg{where(agg("histogram", x), testplan.Call(">", x, num(0)))}, "dense by function", false},
		{"by executable", []plan.Expr{col("exe")}, []plan.Agg{agg("count"), agg("sum", x)}, "dense by function", false},
		{"by a condition", []plan.Expr{testplan.Call(">", x, y), testplan.Call("=", fn, testplan.Constant("beta"))}, []plan.Agg{agg("count"), agg("sum", x)}, "hash by arg0 > arg1, function_name = 'beta'", false},
		{"by a case", []plan.Expr{sizes(x), fn}, []plan.Agg{agg("count"), agg("histogram", y)}, "hash by case", false},
		{"all by a case that may overflow", []plan.Expr{sizes(big("*", x, y))}, nil, "hash by case", true},
		{"depth", []plan.Expr{col("depth")}, []plan.Agg{agg("count"), agg("max", x)}, "hash by depth", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.name, "all") {
				c.aggs = append(whole(), agg("sum", big("*", x, y)))
			}
			cols := []string{"timestamp", "pid", "tid", "process", "thread_name", "function_name", "class", "module", "arg0", "arg1"}
			if c.name == "depth" {
				cols = append(cols, "depth")
			}
			if c.name == "by executable" {
				cols = append(cols, "exe")
			}
			p := provider(t, Options{})
			r := run(t, target)
			sel := testplan.Named("alpha", "beta", "gamma_")
			cond := testplan.Call(">", x, num(-1<<40)) // the product of the others fits
			if !c.singly {
				cond = and(cond, testplan.Call("<", x, num(1<<40)))
			}
			spec := aggregate(filtered(catalog.FunctionStart, r.target(), sel, cond, cols...), 0, c.keys, c.aggs...)
			raw := filtered(catalog.FunctionStart, r.target(), sel, cond, cols...)
			src, got := start(t, p, spec)
			_, all := start(t, p, raw)
			if how := src.Info().Aggregation; !strings.HasPrefix(how, c.how) {
				t.Errorf("aggregates %q, want %q", how, c.how)
			}
			r.finish(success)
			got.wait(t)
			all.wait(t)
			if singles := len(got.rows); singles > 0 != c.singly || singles > len(all.rows)/2 {
				t.Errorf("%d of %d events were left to the engine", singles, len(all.rows))
			}
			want := groups(t, spec, nil, all.rows)
			if diff := cmp.Diff(want, groups(t, spec, got.parts, got.rows), cmpopts.IgnoreUnexported(merged{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if len(all.rows) < 1000 || len(got.lost)+len(got.counts) > 0 || got.late > 0 {
				t.Errorf("%d rows, lost %v, counts %v, late %d", len(all.rows), got.lost, got.counts, got.late)
			}
		})
	}
}

// bigInt and decimal are for tests in which the package name is shadowed.
type bigInt = bigint.Int

func decimal(n int64) string { return bigint.NewInt(n).String() }

// Durations are aggregated for each way of observing returns: their number and sum agree
// with a query of the same calls, up to the cost of another probe.
func TestAggregatesOfDurations(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, mixed, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		testenv.Once(t, func() error { return durationsAgree(t, target, o) })
	})
}

// durationsAgree returns how the durations of two queries differ. If a thread is
// interrupted between the probes of the two queries, its call is longer for one of them.
func durationsAgree(t *testing.T, target string, o Options) (differ error) {
	t.Helper()
	p := provider(t, o)
	r := run(t, target)
	cols := []string{"timestamp", "function_name", "duration", "arg0"}
	long := dur(10 * time.Millisecond)
	spec := aggregate(testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("alpha", "slow"), cols...), 0, []plan.Expr{col("function_name")},
		agg("count"), agg("max", col("duration")), agg("sum", col("duration")), agg("last", col("arg0")), where(agg("count"), testplan.Call(">", col("duration"), long)))
	src, got := start(t, p, spec)
	_, all := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("alpha", "slow"), cols...))
	if how := src.Info().Aggregation; how != "dense by function" {
		t.Errorf("aggregates %q", how)
	}
	r.finish(success)
	got.wait(t)
	all.wait(t)
	want, have := groups(t, spec, nil, all.rows), groups(t, spec, got.parts, got.rows)
	if len(got.rows) > 0 || len(have) != 2 {
		t.Fatalf("%d rows singly, groups %v", len(got.rows), have)
	}
	for key, w := range want {
		h := have[key]
		if h[0].N != w[0].N || h[3].Value != w[3].Value {
			t.Errorf("%s: %d calls, the last of %d; want %d, %d", key, h[0].N, h[3].Value, w[0].N, w[3].Value)
		}
		if h[1].Value > h[2].sum.Int64() {
			t.Errorf("%s: %d at most, %v together", key, h[1].Value, &h[2].sum)
		}
		if d := h[2].sum.Int64() - w[2].sum.Int64(); max(d, -d) > w[0].N*int64(time.Millisecond) || h[4].N != w[4].N {
			differ = fmt.Errorf("%s: %d at most, %v together, %d long; want %d, %v, %d", key, h[1].Value, &h[2].sum, h[4].N, w[1].Value, &w[2].sum, w[4].N)
		}
	}
	return differ
}

// distinct is a target that calls f(0), f(1) ... f(59999).
const distinct = prelude + `
NOINLINE long f(long i) { sink += i; return i; }
int main(void) { ready(); for (long i = 0; i < 60000; i++) f(i); }
`

// Groups for which the kernel has no room become rows: the result is exact.
func TestMoreGroupsThanRoom(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, distinct, "-O1", "-fcf-protection=none")
	for _, c := range []struct {
		name string
		keys []plan.Expr
		aggs []plan.Agg
	}{
		{"groups", []plan.Expr{col("arg0")}, []plan.Agg{agg("count"), agg("sum", col("arg0"))}},
		{"buckets", nil, []plan.Agg{agg("count"), {Fn: "histogram", Args: []plan.Expr{big("*", col("arg0"), num(3))},
			Params: []types.Value{types.Int(0), types.Int(1 << 30), types.Int(1)}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, target)
			spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), "timestamp", "arg0"), 0, c.keys, c.aggs...)
			p := provider(t, Options{})
			src, err := p.Prepare(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			a := src.(*source).aggregation
			room := 20_000
			a.Limit = room
			sink := newRecord(spec)
			if err := src.Start(t.Context(), sink, probes.Options{}); err != nil {
				t.Fatal(err)
			}
			r.finish(success)
			got := sink.wait(t)
			if full := got.counts["no room for more groups in the kernel"]; full == 0 || int(full) != len(got.rows) || len(got.rows) > 60_000-room {
				t.Errorf("%d rows singly, %d of them for want of room", len(got.rows), full)
			}
			calls, sum, values := int64(0), new(bigInt), 0
			for _, g := range groups(t, spec, got.parts, got.rows) {
				calls += g[0].N
				sum.Add(sum, &g[1].sum)
				values += len(g[1].Buckets)
			}
			if c.name == "groups" && sum.Int64() != 60_000*59_999/2 || c.name == "buckets" && values != 60_000 || calls != 60_000 {
				t.Errorf("%d calls, sum %v, %d buckets", calls, sum, values)
			}
		})
	}
}

// A state is not updated while an interrupted program is using it: the interrupting
// events become rows.
func TestInterruptedPrograms(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, distinct, "-O1", "-fcf-protection=none")
	r := run(t, target)
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), "timestamp", "arg0"), 0, nil, agg("count"), agg("sum", col("arg0")))
	src, got := start(t, provider(t, Options{}), spec)
	a := src.(*source).aggregator
	a.Mu.Lock()
	for cpu := range a.Cpus {
		a.Dense(0)[cpu*a.Groups*a.Code.StateWords] = 1
	}
	a.Mu.Unlock()
	r.finish(success)
	got.wait(t)
	if len(got.rows) != 60_000 || len(got.parts) > 0 {
		t.Errorf("%d rows singly and %d partial ones", len(got.rows), len(got.parts))
	}
}

// The hits of functions are known without a separate count; earlier calls are delivered
// on request.
func TestHitsOfCounts(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long f(long i) { sink += i; return i; }
NOINLINE long g(long i) { sink -= i; return i; }
int main(void) { ready(); for (long i = 0; i < 30; i++) { f(i); if (i % 3) g(i); } ready(); for (long i = 0; i < 5; i++) f(i); ready(); }
`, "-O1")
	p := provider(t, Options{})
	r := run(t, target)
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f", "g"), "timestamp", "function_name"), 0, []plan.Expr{col("function_name")}, agg("count"))
	src, got := start(t, p, spec)
	if src.(*source).aggregation.Options&program.NoHits == 0 {
		t.Error("hits are counted apart")
	}
	expect := func(f, g uint64) {
		t.Helper()
		hits := map[string]uint64{}
		for _, s := range p.Probes() {
			hits[s.Function] = s.Hits
		}
		if hits["f"] != f || hits["g"] != g {
			t.Errorf("hits %v, want %d and %d", hits, f, g)
		}
	}
	r.step()
	r.line()
	expect(30, 20)
	if _, err := src.Control(t.Context(), probes.Collect{}); err != nil {
		t.Fatal(err)
	}
	expect(30, 20)
	got.mu.Lock()
	if given := groups(t, spec, got.parts, got.rows); given["f0"][0].N != 30 || given["g0"][0].N != 20 {
		t.Errorf("collected %v", given)
	}
	got.mu.Unlock()
	r.step()
	r.line()
	expect(35, 20)
	r.finish(success)
}

// Aggregates whose events still become rows.
func TestWhatIsNotAggregated(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, distinct, "-O1")
	r := run(t, target)
	p := provider(t, Options{})
	for name, change := range map[string]func(a *plan.Acquire){
		"no aggregate": func(a *plan.Acquire) { a.Partial = nil },
		"kernel off":   func(a *plan.Acquire) { a.Settings.NoKernel = true },
		"a residual": func(a *plan.Acquire) {
			a.Filter = bound(testplan.Call("=", col("exe"), testplan.Constant("/x")), a.Out)
		},
		"too short a pane": func(a *plan.Acquire) { a.Partial.Pane = program.MinPane / 2 },
		"a key of no use": func(a *plan.Acquire) {
			a.Partial.Keys = []plan.Expr{&plan.Cast{X: bound(col("arg0"), a.Out), T: types.Double}}
		},
		"a case of no use": func(a *plan.Acquire) {
			a.Partial.Keys = []plan.Expr{bound(&plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: testplan.Call("=", col("exe"), testplan.Constant("/x")), Then: num(1)}}, Else: num(2)}, a.Out)}
		},
		"a case of more": func(a *plan.Acquire) {
			a.Partial.Keys = []plan.Expr{bound(&plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: testplan.Call("=", col("arg0"), num(0)), Then: col("arg0")}}}, a.Out)}
		},
		"a key that is text": func(a *plan.Acquire) { a.Partial.Keys = []plan.Expr{testplan.Constant("text")} },
	} {
		spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), "timestamp", "exe", "arg0"), 0, nil, agg("sum", col("arg0")))
		change(spec)
		src, err := p.Prepare(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if a := src; a.Info().Aggregates || a.Info().Aggregation != "" {
			t.Errorf("%s: aggregates %s", name, a.Info().Aggregation)
		}
		src.Stop()
	}
	r.finish(success)
}
