package uprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/calibrate"
	"endoscope/probes/codesite"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
)

// All prices that a kind of link allows are measured, and nothing stays attached.
func TestPricesAreMeasured(t *testing.T) {
	testenv.NeedUprobes(t)
	for k := attach.Session; k <= attach.Perf; k++ {
		t.Run(k.String(), func(t *testing.T) {
			needFeature(t, k.Needs())
			p := provider(t, Options{})
			var table calibrate.Table
			testenv.Once(t, func() (err error) { // it is given up where the program has no processor
				table, err = p.measure(k)
				return err
			})
			t.Log(table)
			for _, price := range pricesOf(k) {
				for _, m := range calibrate.Methods {
					if table[price][m] <= 0 {
						t.Errorf("%s, %s: %v", price, m, table[price][m])
					}
				}
			}
			p.background.Wait()
			testenv.Until(t, "no links remain, of other processes that measure neither", func() bool {
				return linkCount(t, "/memfd:endoscope-calibrate (deleted)") == 0
			})
		})
	}
}

// The probes that are priced do what those of queries do: they count calls.
func TestPricedProbesCount(t *testing.T) {
	testenv.NeedUprobes(t)
	target := startTurner(t, testenv.CompileCText(t, turning, "-O1", "-pthread"), codesite.Nop, 100, 50, 1)
	k := compiledKernel(t)
	for _, price := range pricesOf(attach.Session) {
		t.Run(price, func(t *testing.T) {
			in, err := k.Load(priced(price, attach.Session, 1), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Objects.Close()
			if err := attachPriced(in, price, attach.Session, target.file, []calibrate.Function{{Entry: target.entry, Exit: target.entry + 5}}); err != nil {
				t.Fatal(err)
			}
			defer in.Detach()
			var per []uint64
			testenv.Until(t, "calls are counted", func() bool { return in.Hits(0, &per) > 0 })
		})
	}
}

// The provider uses and reports the prices in its options, and chooses by them where to
// probe.
func TestPricesAreUsed(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
__asm__(".text\n.globl either\n.type either,@function\neither: .cfi_startproc\n.byte 0x0f,0x1f,0x44,0,0\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size either,.-either\n");
long either(long);
int main(void) { ready(); either(1); return 0; }
`, "-O1")
	prices := func(nop float64) calibrate.Table {
		return calibrate.Table{
			calls.PriceEntry:   {codesite.Emulated: 111, codesite.Nop: nop, codesite.Stepped: 9999},
			calls.PriceCounted: {codesite.Emulated: 100, codesite.Nop: nop - 1, codesite.Stepped: 9000},
			calls.PricePair:    {codesite.Emulated: 222, codesite.Nop: 2 * nop, codesite.Stepped: 19999},
			calls.PriceExits:   {codesite.Emulated: 888, codesite.Nop: 4 * nop, codesite.Stepped: 39999},
		}
	}
	type shown struct {
		method    string
		ns        float64
		estimated bool
	}
	for _, c := range []struct {
		name, links, stream string
		returns             plan.ReturnProbes
		nop                 float64
		want                shown
	}{
		{"the nop is cheaper", "multi", catalog.FunctionStart, plan.AutoReturns, 50, shown{codesite.Nop, 50, false}},
		{"the kernel steps the nop", "multi", catalog.FunctionStart, plan.AutoReturns, 9999, shown{codesite.Emulated, 111, false}},
		{"with the return", "multi", catalog.FunctionDuration, plan.AutoReturns, 9999, shown{codesite.Emulated, 222, false}},
		{"by perf events", "perf", catalog.FunctionDuration, plan.AutoReturns, 9999, shown{codesite.Emulated, 222, false}},
		{"with the exit", "multi", catalog.FunctionDuration, plan.ExitReturns, 9999, shown{codesite.Emulated, 444, false}},
		{"of another kind of link than was measured", "session", catalog.FunctionDuration, plan.AutoReturns, 9999,
			shown{codesite.Emulated, calls.Estimates[calls.PriceSession][codesite.Emulated], true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.links == "session" {
				needFeature(t, attach.FeatureSession)
			}
			p := provider(t, Options{Links: c.links, Returns: c.returns, Prices: prices(c.nop)})
			src, err := p.Prepare(t.Context(), testplan.Acquire(c.stream, plan.Target{Exes: []string{target}}, testplan.Named("either"), "timestamp"))
			if err != nil {
				t.Fatal(err)
			}
			defer src.Stop()
			s := src.Info().Sites[0]
			if got := (shown{s.Method, s.CostNs, s.Estimated}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Calls aggregated in the kernel do not include the price of a record.
func TestPriceOfWhatIsAggregated(t *testing.T) {
	c := calls.Costs{Measured: calibrate.Table{
		calls.PriceEntry:   {codesite.Emulated: 150},
		calls.PriceCounted: {codesite.Emulated: 100},
		calls.PriceSession: {codesite.Emulated: 400},
	}}
	for _, x := range []struct {
		returns calls.Returns
		want    float64
	}{{calls.Unseen, 100}, {calls.Trapped, 350}} {
		if got, estimated := c.Site(calls.Function{Returns: x.returns}, codesite.Emulated, attach.Session, true); got != x.want || estimated {
			t.Errorf("%v: %v, estimated %v; want %v", x.returns, got, estimated, x.want)
		}
	}
}

// Without measurements the estimates are used, and marked as such.
func TestEstimates(t *testing.T) {
	for price := range calls.Estimates {
		for _, m := range calibrate.Methods {
			if ns, estimated := (calls.Costs{}).Price(price, m); ns <= 0 || !estimated {
				t.Errorf("%s, %s: %v, estimated %v", price, m, ns, estimated)
			}
		}
	}
	for ns, want := range map[float64]float64{0: 0, 7.4: 7, 99: 99, 123: 120, 17_440: 17_000, 18_777: 19_000} {
		if got := calls.Rounded(ns); got != want {
			t.Errorf("%v is about %v, want %v", ns, got, want)
		}
	}
}

// The first query on a machine measures; another process uses the cached prices.
func TestPricesAreKept(t *testing.T) {
	testenv.NeedUprobes(t)
	sites := func() []probes.Site {
		p := New(Options{Match: testplan.Match})
		defer p.Close()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		src, err := p.Prepare(context.Background(), testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{self}}, testplan.Named("main.main"), "timestamp"))
		if err != nil {
			t.Fatal(err)
		}
		defer src.Stop()
		return src.Info().Sites
	}
	testenv.Once(t, func() error { // what was measured on a busy machine is given up, or not kept
		dir := t.TempDir()
		t.Setenv("XDG_CACHE_HOME", dir)
		first := sites()
		if first[0].Estimated {
			return errors.New("nothing was measured")
		}
		files, err := os.ReadDir(dir + "/endoscope")
		if err != nil || len(files) != 1 {
			return fmt.Errorf("%d files, %v; want 1", len(files), err)
		}
		if diff := cmp.Diff(first, sites()); diff != "" {
			t.Error("another process has other prices:", diff)
		}
		return nil
	})
}

// BenchmarkMeasure measures the delay of the first query on a machine.
func BenchmarkMeasure(b *testing.B) {
	testenv.NeedUprobes(b)
	links, err := attach.ChooseKind(&plan.Acquire{}, "", func(k attach.Kind) bool { return k.Needs().Has() })
	if err != nil {
		b.Fatal(err)
	}
	p := provider(b, Options{})
	p.compiled()
	var last calibrate.Table
	for b.Loop() {
		if last, err = p.measure(links); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.background.Wait()
		b.StartTimer()
	}
	for price, of := range last {
		for method, ns := range of {
			b.Logf("%s, %s: %.0f ns", price, method, ns)
		}
	}
}
