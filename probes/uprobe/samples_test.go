package uprobe

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/codegen"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// The first 1,000 values of a group on a CPU are samples, while there is room. Later ones
// are counted in buckets, with the smallest and the largest value of each.
func TestSamplesOfCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, distinct, "-O1", "-fcf-protection=none")
	table, err := codegen.Boundaries()
	if err != nil {
		t.Fatal(err)
	}
	x := col("arg0")
	sixty := []plan.Expr{big("%", x, num(60))}
	for _, c := range []struct {
		name        string
		keys        []plan.Expr
		groups      int64
		filter      plan.Expr
		limit       int
		least, most int // samples, on one CPU and on all
	}{
		{"one group", nil, 1, nil, 0, 1000, 1000},
		{"small groups", sixty, 60, nil, 0, 60_000, 60_000},
		{"no room", sixty, 60, nil, 20_000, 20_000, 20_000},
		{"filtered", nil, 1, testplan.Call("=", big("%", x, num(60)), num(7)), 0, 1000, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, target)
			median, count := agg("median", x), agg("count")
			if c.filter != nil {
				median = where(median, c.filter)
			}
			spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), "timestamp", "arg0"), 0, c.keys, median, count)
			src, err := provider(t, Options{}).Prepare(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			a := src.(*source).aggregation
			a.Limit = c.limit
			sink := newRecord(spec)
			if err := src.Start(t.Context(), sink, probes.Options{}); err != nil {
				t.Fatal(err)
			}
			r.finish(success)
			got := sink.wait(t)
			if len(got.rows) > 0 || len(got.lost)+len(got.counts) > 0 {
				t.Fatalf("%d rows singly, lost %v, counts %v", len(got.rows), got.lost, got.counts)
			}
			at := 1 + len(c.keys) // low, high, n, state
			samples, calls := 0, int64(0)
			for _, row := range got.parts {
				low, high, n, group := row[at].I, row[at+1].I, row[at+2].I, int64(0)
				calls += n
				switch {
				case n == 0:
					continue
				case !row[at+3].IsNull:
					t.Fatalf("the kernel gives a state: %v", row)
				case codegen.BucketOf(table, low) != codegen.BucketOf(table, high):
					t.Errorf("%d and %d are of one bucket", low, high)
				case len(c.keys) > 0:
					group = row[1].I
				}
				if n == 1 && low == high {
					samples++ // or a bucket with one value
				}
				if step := 60_000 / (60_000 / c.groups); len(c.keys) > 0 && (low%step != group || high%step != group) {
					t.Errorf("%d and %d are of group %d", low, high, group)
				}
				if c.filter != nil && (low%60 != 7 || high%60 != 7) {
					t.Errorf("%d or %d does not pass the filter", low, high)
				}
			}
			all := groups(t, spec, got.parts, nil)
			for key, g := range all {
				want := merged{Buckets: map[int64]int64{}, N: 0}
				for i := range int64(60_000) {
					if c.filter != nil && i%60 != 7 || len(c.keys) > 0 && fmt.Sprint(i%60) != key {
						continue
					}
					if want.N == 0 {
						want.Low = i
					}
					want.High = i
					want.N++
					want.Buckets[codegen.BucketOf(table, i)]++
				}
				want.Sum, want.Square = "0", "0"
				if diff := cmp.Diff(&want, g[0], cmpopts.IgnoreUnexported(merged{})); diff != "" {
					t.Errorf("group %s (-want +got):\n%s", key, diff)
				}
			}
			if int64(len(all)) != c.groups || samples < c.least || c.limit == 0 && samples > c.most*a.Cpus+1000 {
				t.Errorf("%d groups; %d samples of %d calls", len(all), samples, calls)
			}
		})
	}
}

// A query without panes collects as often as it shows results. A group takes samples in
// each of the two slots once, not after each collection.
func TestSamplesAreTakenOnce(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileCText(t, "#define _GNU_SOURCE\n#include <sched.h>\n"+prelude+`
NOINLINE long f(long i) { sink += i; return i; }
int main(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof one, &one);
	for (ready();; ) {
		for (long i = 0; i < 3000; i++)
			f(5);
		puts("done");
		fflush(stdout);
		char b[16];
		if (!fgets(b, sizeof b, stdin))
			return 0;
	}
}`, "-O1", "-fcf-protection=none"))
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("f"), "timestamp", "arg0"), 0, nil, agg("median", col("arg0")))
	src, got := start(t, provider(t, Options{}), spec)
	for range 5 {
		r.round()
		if _, err := src.Control(t.Context(), probes.Collect{}); err != nil {
			t.Fatal(err)
		}
	}
	r.end()
	got.wait(t)
	samples, calls := 0, int64(0)
	for _, row := range got.parts {
		if calls += row[3].I; row[3].I == 1 {
			samples++
		}
	}
	if samples != 2*codegen.ExactSamples || calls != 5*3000 {
		t.Errorf("%d samples of %d calls", samples, calls)
	}
}
