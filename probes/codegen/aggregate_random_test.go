package codegen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"endoscope/operators/expr/exprtest"
	"endoscope/operators/optest"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// bench runs an aggregate's programs in the kernel on a moment, its words and a
// state, like the C code around them.
type bench struct {
	moment, words, state, table *ebpf.Map
}

func newBench(t testing.TB) *bench {
	b := &bench{}
	for _, m := range []struct {
		m    **ebpf.Map
		size int
	}{{&b.moment, momentSize}, {&b.words, 8 * maxWords}, {&b.state, 8 * MaxState}, {&b.table, 8 * 2 * cells}} {
		var err error
		if *m.m, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(m.size), MaxEntries: 1}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*m.m).Close() })
	}
	table, err := Boundaries()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.table.Put(uint32(0), bytesOf(table)); err != nil {
		t.Fatal(err)
	}
	return b
}

func bytesOf(words []uint64) []byte {
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// load builds a program from derive and update: it returns 1 for an event that
// was folded, 0 for one that is left to the engine.
func (b *bench) load(t fataler, a *Aggregate) *ebpf.Program {
	t.Helper()
	ins := asm.Instructions{
		asm.LoadMapValue(asm.R6, b.moment.FD(), 0),
		asm.LoadMapValue(asm.R7, b.words.FD(), 0),
		asm.LoadMapValue(asm.R8, b.state.FD(), 0),
	}
	if a.Derive != nil {
		ins = append(ins, asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.R7), asm.Call.Label("derive"), asm.JEq.Imm(asm.R0, 0, "end"))
	}
	if a.Update != nil {
		ins = append(ins, asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.R8), asm.Mov.Reg(asm.R3, asm.R7), asm.Call.Label("update"))
	}
	ins = append(ins, asm.Mov.Imm(asm.R0, 1), asm.Return().WithSymbol("end"))
	for _, body := range []struct {
		name string
		ins  asm.Instructions
	}{{"derive", a.Derive}, {"update", a.Update}} {
		if body.ins != nil {
			ins = append(append(ins, body.ins[0].WithSymbol(body.name)), body.ins[1:]...)
		}
	}
	for i := range ins {
		if ins[i].Reference() == "boundaries" {
			if err := ins[i].AssociateMap(b.table); err != nil {
				t.Fatalf("%v", err)
			}
		}
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: ins, License: "GPL"})
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		t.Fatalf("%+v", refused)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

// run returns the words of an event and updates state; false if the event is
// left to the engine, and state unchanged.
func (b *bench) run(t fataler, p *ebpf.Program, moment []byte, state []uint64) (words []uint64, ok bool) {
	t.Helper()
	garbage := make([]uint64, maxWords)
	for i := range garbage {
		garbage[i] = 0xdeadbeefdeadbeef
	}
	all := append(slices.Clone(state), make([]uint64, MaxState-len(state))...)
	for m, v := range map[*ebpf.Map][]byte{b.moment: moment, b.words: bytesOf(garbage), b.state: bytesOf(all)} {
		if err := m.Put(uint32(0), v); err != nil {
			t.Fatalf("%v", err)
		}
	}
	ret, err := p.Run(&ebpf.RunOptions{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	words = make([]uint64, maxWords)
	if err := b.words.Lookup(uint32(0), &words); err != nil {
		t.Fatalf("%v", err)
	}
	if err := b.state.Lookup(uint32(0), &all); err != nil {
		t.Fatalf("%v", err)
	}
	if ret == 0 && !slices.Equal(all[:len(state)], state) {
		t.Fatalf("an event that is left to the engine changes the state")
	}
	copy(state, all)
	return words, ret == 1
}

// partials draws the first stage of an aggregate. Some of them the kernel
// cannot compute.
func partials(t *rapid.T) *plan.Partial {
	var keys []plan.Expr
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		switch rapid.IntRange(0, 7).Draw(t, "kind of key") {
		case 6:
			keys = append(keys, conditions(t, rapid.IntRange(0, 2).Draw(t, "depth")))
		case 7:
			e := &plan.Case{T: types.Varchar}
			for i := range rapid.IntRange(1, 3).Draw(t, "arms") {
				e.Whens = append(e.Whens, plan.When{Cond: conditions(t, rapid.IntRange(0, 1).Draw(t, "depth")), Then: &plan.Const{V: types.Str(fmt.Sprint("arm ", i))}})
			}
			if rapid.Bool().Draw(t, "else") {
				e.Else = &plan.Const{V: types.Str("none")}
			}
			keys = append(keys, e)
		case 0, 1:
			keys = append(keys, column(draw(t, []int{colFunction, colClass}, "of the function")))
		case 2:
			keys = append(keys, column(draw(t, []int{colThread, colProcess}, "name")))
		default:
			keys = append(keys, integers(t, draw(t, integerTypes, "type"), rapid.IntRange(0, 2).Draw(t, "depth")))
		}
	}
	var aggs []plan.Agg
	for range rapid.IntRange(0, 4).Draw(t, "aggregates") {
		f := plan.Agg{Fn: draw(t, []string{"count", "rate", "sum", "avg", "min", "max", "first", "last", "stddev", "variance", "histogram", "quantile", "median"}, "function")}
		if f.Star = f.Fn == "rate" || f.Fn == "count" && rapid.Bool().Draw(t, "star"); !f.Star {
			f.Args = []plan.Expr{integers(t, draw(t, integerTypes[:3], "type"), rapid.IntRange(0, 2).Draw(t, "depth"))}
		}
		if f.Fn == "histogram" && rapid.Bool().Draw(t, "steps") {
			f.Params = []types.Value{types.Int(draw(t, []int64{-100, 0, 3}, "lo")), types.Int(draw(t, []int64{1000, 7, 1 << 40}, "hi")), types.Float(float64(draw(t, []int64{1, 10, 7}, "step")))}
		}
		if rapid.IntRange(0, 3).Draw(t, "filtered") == 0 {
			f.Filter = conditions(t, rapid.IntRange(0, 2).Draw(t, "depth"))
		}
		aggs = append(aggs, f)
	}
	p, ok := plan.NewPartial(keys, aggs, 0)
	if !ok {
		t.Fatalf("%v has no states", aggs)
	}
	return p
}

// plain is one group, folded by a simple implementation.
type plain struct {
	events int64
	aggs   []plainAgg
}

type plainAgg struct {
	n, least, most             int64
	sum, squares               big.Int
	first, last, early, latest int64
	buckets                    map[int64]int64
}

func (g *plain) fold(t *rapid.T, p *plan.Partial, table []uint64, row []types.Value) {
	g.events++
	for i := range p.Aggs {
		f, a := &p.Aggs[i], &g.aggs[i]
		if f.Filter != nil {
			passes, err := holds(t, f.Filter, row)
			if err != nil {
				t.Fatalf("%s fails for %v, and was aggregated: %v", f.Filter, row, err)
			}
			if !passes {
				continue
			}
		}
		v := types.Int(0)
		if !f.Star {
			if v = eval(t, f.Args[0], row); v.IsNull {
				t.Fatalf("%s is NULL for %v", f, row)
			}
		}
		x, whole := v.I, optest.Whole(v)
		if a.n == 0 || whole.Cmp(optest.Whole(types.Value{Type: v.Type, I: a.least})) < 0 {
			a.least = x
		}
		if a.n == 0 || whole.Cmp(optest.Whole(types.Value{Type: v.Type, I: a.most})) > 0 {
			a.most = x
		}
		when := row[colEnd].I
		if a.n == 0 || when < a.early {
			a.early, a.first = when, x
		}
		if a.n == 0 || when >= a.latest {
			a.latest, a.last = when, x
		}
		a.n++
		a.sum.Add(&a.sum, whole)
		a.squares.Add(&a.squares, new(big.Int).Mul(whole, whole))
		if a.buckets == nil {
			a.buckets = map[int64]int64{}
		}
		a.buckets[plainBucket(f, table, v)]++
	}
}

// plainBucket returns the bucket number of package operators; a test there
// compares them.
func plainBucket(f *plan.Agg, table []uint64, v types.Value) int64 {
	x, unsigned := v.I, v.Type == types.Ubigint
	switch {
	case f.Fn != "histogram" && unsigned:
		return int64(magnitudeBucket(table, uint64(x)))
	case len(f.Params) == 0 && unsigned:
		return int64(optest.Whole(v).BitLen())
	case f.Fn != "histogram":
		return BucketOf(table, x)
	case len(f.Params) == 0 && x < 0:
		return -1 - int64(big.NewInt(0).Not(big.NewInt(x)).BitLen())
	case len(f.Params) == 0:
		return int64(big.NewInt(x).BitLen())
	}
	lo, hi, step := f.Params[0].I, f.Params[1].I, int64(f.Params[2].F)
	switch {
	case x < lo && !unsigned:
		return underflow
	case x >= hi || unsigned && uint64(x) >= uint64(hi):
		return overflow
	}
	return (x - lo) / step
}

// state returns the fields of plan.StateFields for aggregate i.
func (g *plain) state(fn string, i int) []int64 {
	a := &g.aggs[i]
	words := func(x *big.Int, n int) (list []int64) {
		x = new(big.Int).And(x, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(64*n)), big.NewInt(1)))
		for range n {
			list = append(list, int64(new(big.Int).And(x, new(big.Int).SetUint64(1<<64-1)).Uint64()))
			x = new(big.Int).Rsh(x, 64)
		}
		return list
	}
	switch fn {
	case "count", "rate":
		return []int64{a.n}
	case "sum", "avg":
		return append(words(&a.sum, 2), a.n)
	case "min":
		return []int64{a.least, a.n}
	case "max":
		return []int64{a.most, a.n}
	case "first":
		return []int64{a.early, a.first, a.n}
	case "last":
		return []int64{a.latest, a.last, a.n}
	}
	return append(append(words(&a.sum, 2), a.n), words(&a.squares, 3)...)
}

func eval(t *rapid.T, e plan.Expr, row []types.Value) types.Value {
	v, err := exprtest.EvalRow(e, row)
	if err != nil {
		t.Fatalf("%s fails for %v, and was aggregated: %v", e, row, err)
	}
	return v
}

// The kernel's states equal those of a simple evaluation, for the events that
// it accepts; and it accepts all that need no arithmetic.
func TestAggregatesOfKernelAndEngineAgree(t *testing.T) {
	testenv.NeedRoot(t)
	b := newBench(t)
	table, _ := Boundaries()
	taken, compiled := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		f := &functions{names: []string{"worker", "ab", "wx"}, classes: []string{"", "a", "worker"}, facts: make([]uint64, 3)}
		p := partials(t)
		a, ok := CompileAggregate(p, f.layout(), colEnd, "boundaries")
		if !ok {
			return
		}
		compiled++
		prog := b.load(t, a)
		defer prog.Close()
		states := map[string][]uint64{}
		buckets := map[string]map[uint64]int64{}
		want := map[string]*plain{}
		for range 25 {
			m := moments(t, f)
			before := make([]uint64, a.StateWords)
			words, ok := b.run(t, prog, m.memory[:], before) // for its key
			if !ok {
				continue
			}
			taken++
			var values []types.Value
			for i, e := range p.Keys {
				v := eval(t, e, m.row)
				values = append(values, v)
				checkKey(t, a.Keys[i], e, words, v)
			}
			key := fmt.Sprint(values)
			if want[key] == nil {
				want[key] = &plain{aggs: make([]plainAgg, len(p.Aggs))}
				states[key], buckets[key] = make([]uint64, a.StateWords), map[uint64]int64{}
			}
			want[key].fold(t, p, table, m.row)
			for i, at := range a.Aggs {
				if at.Sketch < 0 || a.Samples[at.Sketch] < 0 || words[bucketAt+at.Sketch] == 1<<64-1 {
					continue
				}
				if x := eval(t, p.Aggs[i].Args[0], m.row); int64(words[sampleAt+at.Sketch]) != x.Type.Key(x.I) {
					t.Fatalf("a sample of %s is %d, want %v", &p.Aggs[i], int64(words[sampleAt+at.Sketch]), x)
				}
			}
			b.run(t, prog, m.memory[:], states[key])
			if a.Update == nil && a.StateWords > 0 {
				states[key][0]++
			}
			for i := range a.Sketches {
				if w := words[bucketAt+i]; w != 1<<64-1 {
					buckets[key][w]++
				}
			}
		}
		for key, g := range want {
			compareGroup(t, p, a, key, states[key], buckets[key], g)
		}
	})
	if taken < 10*compiled || compiled == 0 {
		t.Errorf("%d events taken by %d programs", taken, compiled)
	}
}

func checkKey(t *rapid.T, k Key, e plan.Expr, words []uint64, want types.Value) {
	switch {
	case k.Column >= 0:
	case k.Name:
		name := bytesOf(words[k.Word : k.Word+2])
		if i := slices.Index(name, 0); i >= 0 {
			name = name[:i]
		}
		if string(name) != want.S {
			t.Fatalf("key %s is %q, want %q", e, name, want.S)
		}
	case k.Values != nil:
		if got := k.Values[words[k.Word]]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("key %s is %v, want %v", e, got, want)
		}
	case want.IsNull || int64(words[k.Word]) != want.I:
		t.Fatalf("key %s is %d, want %v", e, int64(words[k.Word]), want)
	}
}

func compareGroup(t *rapid.T, p *plan.Partial, a *Aggregate, key string, state []uint64, buckets map[uint64]int64, g *plain) {
	if a.StateWords > 0 && state[a.Events] != uint64(g.events) {
		t.Fatalf("group %s has %d events, want %d", key, state[a.Events], g.events)
	}
	bySketch := map[int]map[int64]int64{}
	for w, n := range buckets {
		s, bucket := DecodeBucket(w)
		if bySketch[s] == nil {
			bySketch[s] = map[int64]int64{}
		}
		bySketch[s][bucket] = n
	}
	for i := range p.Aggs {
		f, at := &p.Aggs[i], a.Aggs[i]
		if at.Sketch >= 0 {
			if diff := cmp.Diff(g.aggs[i].buckets, bySketch[at.Sketch]); diff != "" {
				t.Fatalf("group %s, %s (-want +got):\n%s", key, f, diff)
			}
			if word := a.Samples[at.Sketch]; (word >= 0) != (f.Fn != "histogram") || word >= 0 && state[word] != 0 {
				t.Fatalf("group %s, %s: the state %v counts samples at %d", key, f, state, word)
			}
			continue
		}
		var got []int64
		for _, w := range at.Words {
			got = append(got, int64(state[w]))
		}
		want := g.state(f.Fn, i)
		if g.aggs[i].n == 0 { // the other words are undefined
			names, _ := plan.StateFields(f)
			for k, field := range names {
				if field.Name != "n" {
					got[k], want[k] = 0, 0
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("group %s, %s: %v, want %v", key, f, got, want)
		}
	}
}
