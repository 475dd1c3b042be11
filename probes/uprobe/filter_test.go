package uprobe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/expr/exprtest"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/program"
)

// matchEngine evaluates conditions on functions as the engine does.
func matchEngine(sel plan.Expr) (func(name, class, module string) (bool, error), error) {
	p, err := expr.Compile(sel, []types.Type{types.Varchar, types.Varchar, types.Varchar})
	if err != nil {
		return nil, err
	}
	return func(name, class, module string) (bool, error) {
		v, err := exprtest.Eval(p, []types.Value{types.Str(name), types.Str(class), types.Str(module)})
		return !v.IsNull && v.I != 0, err
	}, nil
}

// Short names for building conditions. col refers to a column by name only; bound
// resolves it in a specification.
func col(name string) plan.Expr     { return &plan.Col{Name: name} }
func num(i int64) plan.Expr         { return &plan.Const{V: types.Int(i)} }
func dur(d time.Duration) plan.Expr { return &plan.Const{V: types.Dur(int64(d))} }
func stamp(t time.Time) plan.Expr   { return &plan.Const{V: types.Time(t.UnixNano())} }
func and(l, r plan.Expr) plan.Expr  { return testplan.Call("and", l, r) }
func or(l, r plan.Expr) plan.Expr   { return testplan.Call("or", l, r) }
func not(x plan.Expr) plan.Expr     { return testplan.Call("not", x) }
func big(fn string, args ...plan.Expr) plan.Expr {
	return &plan.Call{Fn: fn, Args: args, T: types.Bigint}
}

func among[T any](x plan.Expr, value func(T) types.Value, list ...T) plan.Expr {
	in := &plan.In{X: x}
	for _, v := range list {
		in.List = append(in.List, plan.Const{V: value(v)})
	}
	return in
}

// bound sets the indexes and types of e's columns from out.
func bound(e plan.Expr, out types.Schema) plan.Expr {
	return plan.Transform(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Col); ok {
			i := out.Index(c.Name)
			return &plan.Col{Index: i, Name: c.Name, T: out.Fields[i].Type}
		}
		return x
	})
}

// filtered returns an acquisition of columns with a condition that the kernel is asked
// to test completely.
func filtered(stream string, t plan.Target, sel, cond plan.Expr, cols ...string) *plan.Acquire {
	a := testplan.Acquire(stream, t, sel, cols...)
	a.Filter = bound(cond, a.Out)
	return a
}

// kept returns the rows that satisfy cond; all rows if cond is nil.
func kept(t *testing.T, cond plan.Expr, out types.Schema, rows [][]types.Value) (list [][]types.Value) {
	t.Helper()
	if cond == nil {
		return rows
	}
	for i, ok := range satisfy(t, cond, out, rows) {
		if ok {
			list = append(list, rows[i])
		}
	}
	return list
}

// satisfy reports for each row whether it satisfies cond.
func satisfy(t *testing.T, cond plan.Expr, out types.Schema, rows [][]types.Value) []bool {
	t.Helper()
	f, err := expr.CompileFilter(cond, out.Types())
	if err != nil {
		t.Fatal(err)
	}
	all := make([]bool, len(rows))
	rest := all
	for some := range slices.Chunk(rows, batch.MaxRows) {
		b := batch.New(out.Types())
		for _, row := range some {
			b.AppendRow(row...)
		}
		chosen, err := f.Select(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range chosen {
			rest[i] = true
		}
		rest = rest[len(some):]
	}
	return all
}

// mixed is a target with calls of every kind, in threads one after the other.
const mixed = prelude + `
NOINLINE long alpha(long a, long b) { sink += a; return a * b; }
NOINLINE long beta(long a, long b) { sink += a; return alpha(a, -b) - 1; }
NOINLINE long gamma_(long a, long b) { sink += a; return b ? beta(a, b - 1) + gamma_(a + 1, b / 2) : -a; }
NOINLINE long slow(long a, long b) { sink += a; if (a % 10 == 0) usleep(30000); return b; }
static void *work(void *name) {
	pthread_setname_np(pthread_self(), name);
	for (long i = -20; i < 20; i++) { gamma_(i, i & 7); slow(i, i * 3000000000L); }
	alpha(0x7fffffffffffffff, 1); alpha(-0x7fffffffffffffff - 1, -1);
	return 0;
}
int main(void) {
	ready();
	const char *names[] = { "worker-1", "worker-12", "io", "fifteen-letters" };
	for (int i = 0; i < 4; i++) { pthread_t t; pthread_create(&t, 0, work, (void *)names[i]); pthread_join(t, 0); }
}
`

// A condition, the streams that have its columns, and whether the kernel
// decides all of it.
type condition struct {
	cond    plan.Expr
	streams string // s: function_start, e: function_end, d: function_duration, c: function_call
	whole   bool
}

func conditions() []condition {
	arg0, arg1, retval, duration := col("arg0"), col("arg1"), col("retval"), col("duration")
	thread, name, event := col("thread_name"), col("function_name"), col("event")
	ten := dur(10 * time.Millisecond)
	return []condition{
		{testplan.Call("=", arg0, num(3)), "sd", true},
		{testplan.Call("<>", arg0, num(3)), "sd", true},
		{testplan.Call("<", arg0, num(-5)), "sd", true},
		{testplan.Call(">=", arg0, num(1<<40)), "sd", true},
		{testplan.Call("<=", arg1, num(-3_000_000_000)), "sd", true},
		{testplan.Call(">", arg0, arg1), "sd", true},
		{and(testplan.Call(">=", arg0, num(2)), testplan.Call("<=", arg0, num(6))), "sd", true},
		{or(testplan.Call("=", arg0, num(-20)), testplan.Call("=", arg1, num(7))), "sd", true},
		{not(or(testplan.Call("<", arg0, num(0)), testplan.Call(">", arg0, num(9)))), "sd", true},
		{among(arg0, types.Int, 1, 5, -7), "sd", true},
		{not(among(arg0, types.Int, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1<<62)), "sd", true},
		{testplan.Call("=", big("%", arg0, num(4)), num(3)), "sd", true},
		{testplan.Call("=", big("/", arg0, num(-7)), num(2)), "sd", true},
		{testplan.Call(">", arg0, &plan.Const{V: types.NullOf(types.Bigint)}), "sd", false},
		{testplan.Call("=", retval, num(0)), "ed", true},
		{testplan.Call("<", retval, num(-4)), "ed", true},
		{or(testplan.Call("=", arg0, num(4)), testplan.Call(">", retval, num(50))), "d", true},
		{and(testplan.Call("=", arg1, num(2)), testplan.Call("<", retval, num(0))), "d", true},
		{testplan.Call(">", duration, ten), "d", true},
		{and(testplan.Call("<", duration, ten), testplan.Call("=", name, testplan.Constant("slow"))), "d", true},
		{or(testplan.Call(">", duration, ten), testplan.Call("=", name, testplan.Constant("beta"))), "d", true},
		{testplan.Call(">", &plan.Cast{X: duration, T: types.Double}, &plan.Const{V: types.Float(1e7)}), "d", false},
		{and(testplan.Call(">", &plan.Cast{X: duration, T: types.Double}, &plan.Const{V: types.Float(1e7)}), testplan.Call("=", arg0, num(10))), "d", false},
		{testplan.Call("<", &plan.Call{Fn: "-", Args: []plan.Expr{col("timestamp"), col("start_time")}, T: types.Duration}, ten), "d", false},
		{testplan.Call("<", col("start_time"), stamp(time.Unix(0, 0))), "d", true},
		{testplan.Call(">", col("timestamp"), stamp(time.Unix(0, 0))), "sedc", true},
		{testplan.Call("=", col("depth"), num(0)), "sedc", true},
		{testplan.Call(">", col("depth"), num(2)), "sedc", true},
		{and(testplan.Call("=", col("depth"), num(1)), testplan.Call("=", arg0, num(5))), "sd", true},
		{testplan.Call("=", thread, testplan.Constant("worker-1")), "sedc", true},
		{testplan.Call("<>", thread, testplan.Constant("worker-1")), "sedc", true},
		{testplan.Call("like", thread, testplan.Constant("worker-1%")), "sedc", true},
		{not(testplan.Call("like", thread, testplan.Constant("worker%"))), "sedc", true},
		{testplan.Call("like", thread, testplan.Constant("%-1")), "sedc", false},
		{testplan.Call("=", thread, testplan.Constant("fifteen-letters")), "sedc", true},
		{testplan.Call("=", thread, testplan.Constant("fifteen-letters-and-more")), "sedc", true},
		{among(thread, types.Str, "io", "fifteen-letters", "nobody"), "sedc", true},
		{testplan.Call("starts_with", thread, testplan.Constant("fif")), "sedc", true},
		{testplan.Call("=", col("process"), testplan.Constant("target")), "sedc", true},
		{testplan.Call("<>", col("process"), testplan.Constant("target")), "sedc", true},
		{testplan.Call("~", name, testplan.Constant("^[ab]")), "sedc", true},
		{not(testplan.Call("like", name, testplan.Constant("%m%"))), "sedc", true},
		{or(testplan.Call("=", name, testplan.Constant("alpha")), testplan.Call("=", thread, testplan.Constant("io"))), "sedc", true},
		{or(and(testplan.Call("=", name, testplan.Constant("slow")), testplan.Call("=", arg0, num(0))), and(testplan.Call("=", name, testplan.Constant("beta")), testplan.Call("=", arg1, num(1)))), "sd", true},
		{testplan.Call("like", col("exe"), testplan.Constant("/%")), "sedc", false},
		{and(testplan.Call("=", col("module"), testplan.Constant("target")), testplan.Call("=", arg0, num(1))), "sd", true},
		{testplan.Call("=", event, testplan.Constant("ENTER")), "c", true},
		{testplan.Call("<>", event, testplan.Constant("LEAVE")), "c", true},
		{among(event, types.Str, "LEAVE", "UNWIND"), "c", true},
		{testplan.Call("=", event, testplan.Constant("ENTER, or what begins so")), "c", true},
		{or(testplan.Call("=", name, testplan.Constant("beta")), testplan.Call("like", event, testplan.Constant("L%"))), "c", true},
		{and(testplan.Call("=", event, testplan.Constant("LEAVE")), testplan.Call("=", col("depth"), num(1))), "c", true},
		{or(testplan.Call("=", event, testplan.Constant("GAP")), testplan.Call("=", thread, testplan.Constant("io"))), "c", true},
		// These may overflow, and for some rows the kernel cannot decide.
		{and(testplan.Call("<", arg0, num(1000)), testplan.Call("=", big("+", arg0, num(1)), num(3))), "sd", false},
		{and(and(testplan.Call("<", arg0, num(1000)), testplan.Call(">", arg0, num(-1000))), testplan.Call("=", big("*", arg0, arg0), num(9))), "sd", false},
	}
}

var streamLetters = map[byte]string{'s': catalog.FunctionStart, 'e': catalog.FunctionEnd, 'd': catalog.FunctionDuration, 'c': catalog.FunctionCall}

// Conditions tested in the kernel select the same rows as in the engine. All of them run
// at once, at the same sites.
func TestFilteredInTheKernel(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, mixed, "-O1", "-pthread", "-fno-optimize-sibling-calls")
	functions := testplan.Named("alpha", "beta", "gamma_", "slow")
	best := "" // the kind of links that the kernel prefers
	returnModes(t, func(t *testing.T, o Options) {
		if best == "" {
			best = o.Links
		}
		for letter, stream := range streamLetters {
			if o.Returns == plan.ExitReturns && stream == catalog.FunctionCall {
				continue // refused
			}
			t.Run(stream, func(t *testing.T) {
				o.Match, o.RingBytes = matchEngine, 64<<20 // for all events, if the reader has no processor meanwhile
				testenv.Once(t, func() error {
					p := provider(t, o)
					r := run(t, target)
					var cols []string
					for _, f := range decode.Streams[stream].Fields() {
						// The kernel tests none of these, costs belong to one observation, and
						// copies of stacks would fill the ring.
						if c := calls.ColumnByName[f.Name]; !c.IsMethodColumn() && !c.IsCost() && c != calls.ColStack {
							cols = append(cols, f.Name)
						}
					}
					_, base := start(t, p, testplan.Acquire(stream, r.target(), functions, cols...))
					type running struct {
						condition
						spec *plan.Acquire
						left plan.Expr
						got  *record
					}
					var all []running
					for i, c := range conditions() {
						if !slices.Contains([]byte(c.streams), letter) {
							continue
						}
						// The tests are the same code for all links and at exits, of which
						// each tests some; perf events are detached one by one.
						every := 1
						switch {
						case o.Links == "perf":
							every = 16
						case o.Returns == plan.ExitReturns:
							every = 2
						case o.Links != best:
							every = 4
						}
						if i%every != every/2 {
							continue
						}
						spec := filtered(stream, r.target(), functions, c.cond, cols...)
						src, got := start(t, p, spec)
						all = append(all, running{c, spec, src.Info().Residual, got})
					}
					r.finish(success)
					base.wait(t)
					if len(base.rows) == 0 {
						t.Fatal("no rows without a condition")
					}
					some := 0
					for _, q := range all {
						rows := kept(t, q.left, q.spec.Out, q.got.wait(t).rows)
						want, got := stable(cols, kept(t, q.spec.Filter, q.spec.Out, base.rows)), stable(cols, rows)
						if ofTimes(q.spec.Filter) {
							if n := len(kept(t, q.spec.Filter, q.spec.Out, rows)); n != len(rows) {
								t.Errorf("%s: is true of %d of %d rows", q.spec.Filter, n, len(rows))
							}
							if err := sameButForTimes(t, q.spec, cols, base.rows, got); err != nil {
								return err
							}
						} else if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s: %d rows, want %d\n%s", q.spec.Filter, len(got), len(want), diff)
						}
						if q.whole != (q.left == nil) {
							t.Errorf("%s: %v is left to the engine", q.spec.Filter, q.left)
						}
						if len(want) > 0 && len(want) < len(base.rows) {
							some++
						}
						if len(q.got.lost)+len(q.got.counts) > 0 {
							t.Errorf("%s: lost %v, counts %v", q.spec.Filter, q.got.lost, q.got.counts)
						}
					}
					if o.Links == best && 4*some < 3*len(all) {
						t.Errorf("only %d of %d conditions hold of some rows and not of others", some, len(all))
					}
					return nil
				})
			})
		}
	})
}

// stable returns rows without the columns that differ from query to query: times.
func stable(cols []string, rows [][]types.Value) []string {
	var out []string
	for _, row := range rows {
		var line string
		for i, name := range cols {
			if name != "timestamp" && name != "start_time" && name != "duration" && name != "self_time" {
				line += plan.FormatValue(row[i]) + " "
			}
		}
		out = append(out, line)
	}
	return out
}

// ofTimes reports whether a condition uses columns that differ from query to query.
func ofTimes(cond plan.Expr) (is bool) {
	plan.Transform(cond, func(x plan.Expr) plan.Expr {
		c, ok := x.(*plan.Col)
		is = is || ok && (c.Name == "timestamp" || c.Name == "start_time" || c.Name == "duration")
		return x
	})
	return is
}

// sameButForTimes checks that got has the rows of base that satisfy the query's
// condition. Each query reads the clock itself: a call whose duration is close to a
// limit of the condition may satisfy it for one query and not for another. So rows that
// would be excluded by a slightly different duration may be missing, and vice versa. It returns
// an error if the rows differ: a call may have lasted longer for some of the queries if the machine
// had no processor for a while.
func sameButForTimes(t *testing.T, spec *plan.Acquire, cols []string, base [][]types.Value, got []string) error {
	t.Helper()
	const bit = 9 * time.Millisecond // of the 10 and 30 ms in conditions and calls
	least, most := map[string]int{}, map[string]int{}
	lines := stable(cols, base)
	var satisfied [3][]bool
	for i, more := range []time.Duration{-bit, 0, bit} {
		rows := make([][]types.Value, len(base))
		for r, row := range base {
			rows[r] = slices.Clone(row)
			for c, name := range cols {
				if name == "timestamp" || name == "duration" {
					rows[r][c].I += int64(more)
				}
			}
		}
		satisfied[i] = satisfy(t, spec.Filter, spec.Out, rows)
	}
	for r, line := range lines {
		n := 0
		for _, s := range satisfied {
			if s[r] {
				n++
			}
		}
		if n > 0 {
			most[line]++
		}
		if n == len(satisfied) {
			least[line]++
		}
	}
	have := tally(got)
	for _, line := range append(slices.Clone(lines), got...) {
		if n := have[line]; n < least[line] || n > most[line] {
			return fmt.Errorf("%s: %d rows, want %d to %d: %s", spec.Filter, n, least[line], most[line], line)
		}
	}
	return nil
}

// A call excluded by its arguments is not followed to its return; with depth it is,
// since it encloses others.
func TestRefusedAtTheEntry(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		cond := testplan.Call("=", col("arg0"), num(1)) // of the second of three rounds
		src, got := start(t, p, filtered(catalog.FunctionDuration, r.target(), testplan.Named("alpha"), cond, "timestamp", "arg0"))
		deep, all := start(t, p, filtered(catalog.FunctionDuration, r.target(), testplan.Named("alpha", "beta"), cond, "timestamp", "arg0", "depth"))
		for range 3 {
			r.round()
		}
		per := p.active[src.(*source)]
		c, err := per.Counters(new([]bpf.FunctionCounters))
		if armed, returned := program.Awaited(&c); err != nil || armed != 10 || returned != 10 {
			t.Errorf("%d returns armed, %d returned, %v; want 10", armed, returned, err)
		}
		if hits := per.Hits(0, new([]uint64)); hits != 30 {
			t.Errorf("%d hits, want 30", hits)
		}
		src.Stop()
		deep.Stop()
		r.end()
		if n := len(got.wait(t).rows); n != 10 {
			t.Errorf("%d rows, want 10", n)
		}
		if diff := cmp.Diff(map[int64]int{0: 10, 1: 10}, tally(all.wait(t).ints("depth"))); diff != "" {
			t.Error("depths:", diff)
		}
	})
}

// The kernel's clock differs from the wall clock: conditions on times are shifted.
func TestFilteredByTime(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	for ahead := 500 * time.Millisecond; !filteredByTime(t, target, ahead); ahead *= 4 {
		if ahead > time.Minute {
			t.Fatalf("the first of the calls was not over after %v", ahead)
		}
	}
}

// filteredByTime divides calls by a time that lies the given interval ahead; false means
// that the machine was too slow.
func filteredByTime(t *testing.T, target string, ahead time.Duration) bool {
	t.Helper()
	p := provider(t, Options{})
	r := run(t, target)
	limit := time.Now().Add(ahead)
	type division struct {
		stream, column string
		each           int // rows of a call
		before, after  *record
	}
	var all []division
	for stream, cols := range map[string][]string{catalog.FunctionStart: {"timestamp"}, catalog.FunctionDuration: {"timestamp", "start_time"}, catalog.FunctionCall: {"timestamp"}} {
		each := 1
		if stream == catalog.FunctionCall {
			each = 2
		}
		for _, c := range cols {
			_, before := start(t, p, filtered(stream, r.target(), testplan.Named("alpha"), testplan.Call("<", col(c), stamp(limit)), cols...))
			_, after := start(t, p, filtered(stream, r.target(), testplan.Named("alpha"), testplan.Call(">=", col(c), stamp(limit)), cols...))
			all = append(all, division{stream, c, each, before, after})
		}
	}
	r.round()
	inTime := time.Now().Before(limit)
	time.Sleep(time.Until(limit) + time.Millisecond) // later calls are after the limit
	r.round()
	r.round()
	r.end()
	for _, d := range all {
		n, m := len(d.before.wait(t).rows), len(d.after.wait(t).rows)
		if inTime && (n != 10*d.each || m != 20*d.each) {
			t.Errorf("%s of %s: %d rows before and %d after, want %d and %d", d.column, d.stream, n, m, 10*d.each, 20*d.each)
		}
	}
	return inTime
}

// A column read only by the kernel's test is not sent to user space.
func TestColumnsOfTheFilterAreNotSent(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	kernel := and(testplan.Call("=", col("arg0"), num(0)), testplan.Call("like", col("thread_name"), testplan.Constant("t%")))
	engine := and(kernel, testplan.Call("like", col("process"), testplan.Constant("%t")))
	for _, c := range []struct {
		name    string
		cond    plan.Expr
		only    []int
		without bool // the kernel
		sent    uint32
	}{
		{"decided in the kernel", kernel, []int{1, 2, 3}, false, 0},
		{"read by the query too", kernel, []int{2, 3}, false, abi.SendArgs},
		{"left to the engine", engine, []int{1, 2, 3}, false, abi.SendNames},
		{"all left to the engine", kernel, []int{1, 2, 3}, true, abi.SendArgs | abi.SendNames},
	} {
		spec := filtered(catalog.FunctionStart, r.target(), testplan.Named("alpha"), c.cond, "timestamp", "arg0", "thread_name", "process")
		spec.FilterOnly, spec.Settings.NoKernel = c.only, c.without
		src, got := start(t, p, spec)
		if sent := src.(*source).wants.Options & (abi.SendArgs | abi.SendNames); sent != c.sent {
			t.Errorf("%s: sends %#x, want %#x", c.name, sent, c.sent)
		}
		if c.without && src.Info().Residual != spec.Filter {
			t.Errorf("%s: residual %v", c.name, src.Info().Residual)
		}
		defer func() {
			if n := len(kept(t, src.Info().Residual, spec.Out, got.wait(t).rows)); n != 10 {
				t.Errorf("%s: %d rows, want 10", c.name, n)
			}
		}()
	}
	r.round()
	r.round()
	r.end()
}

// There are more conditions on functions than a cookie has bits: the engine tests the
// rest.
func TestMoreFactsThanBits(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{Match: matchEngine})
	r := run(t, target)
	either := func(i int) plan.Expr {
		return or(testplan.Call("=", col("function_name"), testplan.Constant(fmt.Sprint("f", i))), testplan.Call("=", col("arg0"), num(0)))
	}
	cond := either(0)
	for i := range abi.MaxFacts {
		cond = and(cond, either(i+1))
	}
	spec := filtered(catalog.FunctionStart, r.target(), testplan.Named("alpha", "beta"), cond, "function_name", "arg0")
	src, got := start(t, p, spec)
	if want := bound(either(abi.MaxFacts), spec.Out).String(); src.Info().Residual == nil || src.Info().Residual.String() != want {
		t.Errorf("%v is left, want %s", src.Info().Residual, want)
	}
	r.round()
	r.round()
	r.end()
	if n := len(got.wait(t).rows); n != 20 {
		t.Errorf("%d rows, want 20", n)
	}
}
