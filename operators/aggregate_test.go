package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// agg parses "sum(x)", "count(*)", "quantile(x, 0.5)", "count(distinct s)" and
// so on over the columns of in.
func agg(in plan.Node, text string) plan.Agg {
	name, rest, _ := strings.Cut(text, "(")
	f := plan.Agg{Fn: name}
	for i, arg := range strings.Split(strings.TrimSuffix(rest, ")"), ", ") {
		arg, distinct := strings.CutPrefix(arg, "distinct ")
		f.Distinct = f.Distinct || distinct
		switch {
		case arg == "*":
			f.Star = true
		case i == 0:
			f.Args = []plan.Expr{column(in, arg)}
		case strings.Contains(arg, "."):
			f.Params = append(f.Params, value(types.Double, arg))
		default:
			f.Params = append(f.Params, value(types.Bigint, arg))
		}
	}
	arg := types.Null
	if len(f.Args) > 0 {
		arg = f.Args[0].Type()
	}
	f.T = plan.FindAgg(name).Result(arg)
	return f
}

// groupBy is an aggregate node: keys are column names, aggs as agg reads them,
// both separated by "; ".
func groupBy(in plan.Node, keys, aggs string) *plan.Aggregate {
	n := &plan.Aggregate{Input: in, Out: types.Schema{Time: -1}}
	for _, name := range strings.Fields(keys) {
		k := column(in, name)
		if name == "window_end" {
			n.Windowed, n.WindowEnd = true, len(n.Keys)
		}
		n.Keys = append(n.Keys, k)
		n.Out.Fields = append(n.Out.Fields, types.Field{Name: name, Type: k.T})
	}
	for text := range strings.SplitSeq(aggs, "; ") {
		f := agg(in, text)
		n.Aggs = append(n.Aggs, f)
		n.Out.Fields = append(n.Out.Fields, types.Field{Name: text, Type: f.T})
	}
	return n
}

func every(n *plan.Aggregate, m plan.EmitMode) *plan.Aggregate {
	n.Emit.Mode = m
	return n
}

func TestAggregateFinal(t *testing.T) {
	in := relation("s:varchar x:bigint")
	root := groupBy(in, "s", "count(*); count(x); sum(x); min(x); max(x)")
	expect(t, play(t, root, Options{}, `
		b 1
		a 2
		null 7
		b null
		--
		c 3
		b 4
		null 1
		wm 9
		close
	`), `
		wm 9
		b 3 2 5 1 4
		a 1 1 2 2 2
		null 2 2 8 1 7
		c 1 1 3 3 3
		flush
		close
	`)
}

// Without GROUP BY there is a result even if there was no row; with GROUP BY
// there is none.
func TestAggregateOfNothing(t *testing.T) {
	in := relation("s:varchar x:bigint d:duration f:double")
	all := "count(*); count(x); count(distinct s); sum(x); avg(x); avg(d); min(s); max(f); stddev(x); variance(f); " +
		"quantile(x, 0.5); median(d); histogram(x); topk(s, 3); first(s); last(x); rate(*)"
	expect(t, play(t, groupBy(in, "", all), Options{}, "close"), `
		0 0 0 null null null null null null null null null null null null null 0
		flush
		close
	`)
	expect(t, play(t, groupBy(in, "s", all), Options{}, "close"), `
		flush
		close
	`)
}

// EMIT EVERY gives totals since the start at each Tick, and at the end unless
// nothing has come since the last.
func TestAggregateEvery(t *testing.T) {
	in := relation("s:varchar x:bigint")
	root := every(groupBy(in, "s", "sum(x)"), plan.Every)
	expect(t, play(t, root, Options{}, `
		a 1
		tick 10
		tick 20
		b 2
		a 1
		close
	`), `
		a 1
		flush
		tick 10
		a 1
		flush
		tick 20
		a 2
		b 2
		flush
		close
	`)
	expect(t, play(t, root, Options{}, `
		a 1
		tick 10
		close
	`), `
		a 1
		flush
		tick 10
		close
	`)
}

// EMIT CHANGES gives each group that a batch changed once, with its totals.
func TestAggregateChanges(t *testing.T) {
	in := relation("s:varchar x:bigint")
	root := every(groupBy(in, "s", "sum(x)"), plan.Changes)
	expect(t, play(t, root, Options{}, `
		a 1
		b 2
		a 1
		--
		b 3
		tick 10
		preview 11
		close
	`), `
		a 2
		b 2
		b 5
		tick 10
		preview 11
		close
	`)
}

// A preview changes nothing.
func TestAggregatePreview(t *testing.T) {
	in := relation("s:varchar x:bigint")
	root := groupBy(in, "s", "sum(x)")
	expect(t, play(t, root, Options{}, `
		a 1
		preview 10
		tick 10
		a 1
		close
	`), `
		a 1
		flush preview
		preview 10
		tick 10
		a 2
		flush
		close
	`)
}

// Windows are given in the order of their ends, each followed by Flush, when
// the watermark passes; rows behind it are late.
func TestAggregateWindows(t *testing.T) {
	in := relation("t:bigint s:varchar window_start:bigint window_end:bigint")
	root := groupBy(in, "s window_start window_end", "count(*); rate(*); last(t)")
	expect(t, play(t, root, Options{}, `
		12 a 10 20
		3 b 0 10
		4 a 0 10
		13 a 10 20
		wm 10
		5 a 0 10
		14 b 10 20
		33 c 30 40
		6 a 0 10
		wm 35
		close
	`), `
		b 0 10 1 1e+08 3
		a 0 10 1 1e+08 4
		flush
		wm 10
		gap late 2
		a 10 20 2 2e+08 13
		b 10 20 1 1e+08 14
		flush
		wm 35
		c 30 40 1 1e+08 33
		flush
		close
	`)
}

// Sessions may end together and have begun apart: they are different windows.
func TestAggregateSessions(t *testing.T) {
	in := relation("t:bigint s:varchar window_start:bigint window_end:bigint")
	root := groupBy(in, "window_end s window_start", "count(*)")
	expect(t, play(t, root, Options{}, `
		12 a 10 20
		15 b 15 20
		16 a 10 20
		close
	`), `
		20 a 10 2
		flush
		20 b 15 1
		flush
		close
	`)
}

// Without other keys a window is there as soon as it has a row.
func TestAggregateWindowsWithoutKeys(t *testing.T) {
	in := relation("t:bigint window_start:bigint window_end:bigint")
	root := groupBy(in, "window_start window_end", "count(*)")
	expect(t, play(t, root, Options{}, `
		wm 7
		12 10 20
		25 20 30
		13 10 20
		close
	`), `
		wm 7
		10 20 2
		flush
		20 30 1
		flush
		close
	`)
}

func TestAggregateFilterClause(t *testing.T) {
	in := relation("s:varchar x:bigint")
	root := groupBy(in, "s", "count(*); count(*); sum(x)")
	for i := range root.Aggs[1:] {
		root.Aggs[1+i].Filter = call(types.Boolean, ">", column(in, "x"), literal(types.Int(1)))
	}
	expect(t, play(t, root, Options{}, `
		a 1
		a 2
		b 1
		a null
		a 5
		close
	`), `
		a 4 2 7
		b 1 0 null
		flush
		close
	`)
}

// Keys of every type, alone and together, with NULLs; 0 equals -0.
func TestAggregateKeys(t *testing.T) {
	in := relation("i:bigint f:double b:boolean s:varchar z:varchar l:list")
	rows := `
		1 0 true a x p,q
		null -0 null a y null
		1 null true null x p
		0 NaN false a x p,q
		null NaN null '' x null
		1 0 true a x p
		close
	`
	for _, c := range []struct{ keys, want string }{
		{"i", "1 3\nnull 2\n0 1"},
		{"f", "0 3\nnull 1\nNaN 2"},
		{"b", "true 3\nnull 2\nfalse 1"},
		{"s", "a 4\nnull 1\n'' 1"},
		{"l", "p,q 2\nnull 2\np 2"},
		{"l i", "p,q 1 1\nnull null 2\np 1 2\np,q 0 1"},
		{"s z", "a x 3\na y 1\nnull x 1\n'' x 1"},
		{"b s", "true a 2\nnull a 1\ntrue null 1\nfalse a 1\nnull '' 1"},
		{"i b", "1 true 3\nnull null 2\n0 false 1"},
		{"s f i", "a 0 1 2\na 0 null 1\nnull null 1 1\na NaN 0 1\n'' NaN null 1"},
	} {
		t.Run(c.keys, func(t *testing.T) {
			got := play(t, groupBy(in, c.keys, "count(*)"), Options{}, rows)
			expect(t, got, c.want+"\nflush\nclose")
		})
	}
}

// Streams share the values of equal stacks: a list that came before is known by where it
// is, one that is equal by its text, and an array of other lists is another.
func TestAggregateSharedLists(t *testing.T) {
	root := groupBy(relation("l:list"), "l", "count(*)")
	rec := &recorder{schema: root.Schema()}
	g, err := Build(root, rec, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Abandon()
	all := []types.Value{types.Str("leaf"), types.Str("middle"), types.Str("root")}
	lists := [][]types.Value{all, all[:2], slices.Clone(all), all[1:]}
	ctx := context.Background()
	leaf := g.Leaves[0]
	for range 2 {
		b := batch.New(leaf.Acquire.Out.Types())
		for range 100 {
			for _, l := range lists {
				b.AppendRow(types.ListOf(l))
			}
		}
		if _, err := leaf.Op.Push(ctx, leaf.Port, b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if err := leaf.Op.Close(ctx, leaf.Port); err != nil {
		t.Fatal(err)
	}
	expect(t, rec.text.String(), "leaf,middle,root 400\nleaf,middle 200\nmiddle,root 200\nflush\nclose")
}

// What no group is left for is counted, and the groups there are go on.
func TestAggregateGroupsFull(t *testing.T) {
	in := relation("s:varchar i:bigint f:double")
	for _, key := range []string{"s", "i", "s i f"} {
		root := groupBy(in, key, "count(*)")
		// Two groups' worth of memory.
		limit := int64(48 * (1 + len(root.Keys) + 1) * 2)
		got := play(t, root, Options{MemoryLimit: limit}, `
			1 1 1
			2 2 2
			3 3 3
			1 1 1
			4 4 4
			close
		`)
		if want := "gap groups full 2\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "1 2\n") {
			t.Errorf("by %s: got\n%s", key, got)
		}
	}
}

func TestAggregateDrains(t *testing.T) {
	in := relation("t:bigint window_start:bigint window_end:bigint")
	root := &plan.Limit{Input: groupBy(in, "window_start window_end", "count(*)"), N: 1}
	expect(t, play(t, root, Options{}, `
		5 0 10
		15 10 20
		wm 30
		35 30 40
		close
	`), `
		0 10 1
		flush
		wm 30
		drain 0
		close
	`)
}

// A string has one group, in whatever dictionary it comes; and when the
// strings of closed windows are forgotten, the open ones keep theirs.
func TestAggregateCompactsKeys(t *testing.T) {
	in := relation("window_start:bigint window_end:bigint s:varchar z:varchar")
	for _, keys := range []string{"window_start window_end s", "window_start window_end s z", "s window_end z window_start"} {
		n := groupBy(in, keys, "count(*)")
		rec := &recorder{schema: n.Schema()}
		op, err := newAggregate(n, rec, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, a := context.Background(), op
		largest := 0
		for w := range int64(100) {
			b := batch.New(in.Out.Types()) // with dictionaries of its own
			for i := range 1000 {
				s := fmt.Sprint("s", w, "-", i)
				b.AppendRow(types.Int(10*w), types.Int(10*w+20), types.Str(s), types.Str("z"))
			}
			b.AppendRow(types.Int(0), types.Int(10_000), types.Str("stays"), types.Str("z"))
			if _, err := op.Push(ctx, 0, b); err != nil {
				t.Fatal(err)
			}
			if _, err := op.Signal(ctx, 0, Signal{Kind: Watermark, Time: 10 * w}); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, a.keys[0].space.size())
		}
		if err := op.Close(ctx, 0); err != nil {
			t.Fatal(err)
		}
		text := rec.text.String()
		if largest > maxDict+10_000 {
			t.Errorf("by %s: %d strings kept", keys, largest)
		}
		if n := strings.Count(text, "stays"); n != 1 || !strings.Contains(text, " 100\nflush\nclose") {
			t.Errorf("by %s: the long window has %d groups", keys, n)
		}
		if n := strings.Count(text, "\n") - strings.Count(text, "wm") - strings.Count(text, "flush"); n != 100_000+1+1 {
			t.Errorf("by %s: %d groups", keys, n)
		}
	}
}

func TestAggregateRefusals(t *testing.T) {
	in := relation("x:bigint")
	for text, want := range map[string]string{
		"quantile(x, 1.5)":              "between 0 and 1",
		"topk(x, 0)":                    "1 to 10000 values",
		"histogram(x, 10.0, 0.0, 1.0)":  "lo must be less than hi",
		"histogram(x, 0.0, 10.0, 0.0)":  "lo must be less than hi",
		"histogram(x, 0.0, 10.0, -1.0)": "lo must be less than hi",
	} {
		_, err := Build(groupBy(in, "", text), &recorder{}, &Options{})
		if _, ok := err.(*plan.Error); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The aggregates of the language and those implemented are the same.
func TestAggregateFunctionsComplete(t *testing.T) {
	for _, f := range plan.AggFuncs {
		kinds := f.Args
		if kinds == nil {
			kinds = []types.Type{types.Null}
		}
		for _, arg := range kinds {
			if arg == plan.AnyType {
				arg = types.List
			}
			a := plan.Agg{Fn: f.Name, T: f.Result(arg), Star: f.Args == nil}
			if f.Optional == 0 {
				for _, p := range f.Params {
					a.Params = append(a.Params, types.Value{Type: p, I: 1, F: 0.5})
				}
			}
			if _, err := newAccumulator(&a, arg, &lanes{}); err != nil {
				t.Errorf("%s(%s): %v", f.Name, arg, err)
			}
		}
	}
}

// After the first batches nothing is allocated, whatever the functions.
func TestAggregateAllocatesNothing(t *testing.T) {
	in := relation("t:bigint s:varchar i:bigint f:double")
	for _, keys := range []string{"", "s", "i", "s i"} {
		n := groupBy(in, keys, "count(*); sum(i); avg(f); min(s); max(i); stddev(i); variance(f); "+
			"quantile(f, 0.9); count(distinct s); topk(i, 3); histogram(i); first(s); last(f); rate(*)")
		n.Aggs[1].Filter = call(types.Boolean, ">", column(in, "i"), literal(types.Int(1)))
		op, err := newAggregate(n, &recorder{}, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := batch.New(in.Out.Types())
		for i := range int64(batch.MaxRows) {
			b.AppendRow(types.Int(i), types.Str(fmt.Sprint(i%7)), types.Int(i%5), types.Float(float64(i)))
		}
		ctx := context.Background()
		push := func() {
			if _, err := op.Push(ctx, 0, b); err != nil {
				t.Fatal(err)
			}
		}
		push()
		if n := testing.AllocsPerRun(100, push); n >= 1 {
			t.Errorf("by %q: %v allocations per batch", keys, n)
		}
	}
}
