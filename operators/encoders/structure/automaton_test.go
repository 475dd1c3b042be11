package structure

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"endoscope/operators/encoders"
)

// automatonOf returns the automaton of sequences, whose symbols are separated by
// spaces; a sequence that ends with "..." was cut.
func automatonOf(t fataler, o AutomatonOptions, sequences ...string) *Automaton {
	alphabet := encoders.NewAlphabet()
	var all []encoders.Encoding
	for _, s := range sequences {
		e, err := NewAutomatonEncoder(alphabet, o, encoders.Limits{})
		if err != nil {
			t.Fatalf("%v", err)
		}
		words := strings.Fields(s)
		if n := len(words); n > 0 && words[n-1] == "..." {
			words = words[:n-1]
			e.Truncate()
		}
		for _, w := range words {
			e.Append([]encoders.Symbol{alphabet.Symbol(w)}, nil)
		}
		all = append(all, e.Encode())
	}
	a, err := all[0].(*Automaton).Merge(all[1:])
	if err != nil {
		t.Fatalf("%v", err)
	}
	return a.(*Automaton)
}

type fataler interface {
	Fatalf(format string, args ...any)
	Helper()
}

// The automata of testdata/automaton: a line of the input is a sequence.
//
//	automaton [k=3] [loops=off] [merge=shared|included|equal]
func TestAutomaton(t *testing.T) {
	datadriven.RunTest(t, "testdata/automaton", func(t *testing.T, d *datadriven.TestData) string {
		o := AutomatonOptions{K: 3}
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "k":
				arg.Scan(t, 0, &o.K)
			case "loops":
				o.NoLoops = arg.Vals[0] == "off"
			case "merge":
				var ok bool
				if o.Rule, ok = ParseMergeRule(arg.Vals[0]); !ok {
					d.Fatalf(t, "no rule %s", arg.Vals[0])
				}
			default:
				d.Fatalf(t, "no argument %s", arg.Key)
			}
		}
		lines := strings.Split(d.Input, "\n")
		a := automatonOf(t, o, lines...)
		for _, l := range lines {
			if err := a.accepts(l); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
		return a.String() + "\n"
	})
}

// accepts is an error if a does not accept a sequence.
func (a *Automaton) accepts(sequence string) error {
	q, f := int32(0), a.automaton()
	symbols := map[string]encoders.Symbol{}
	for s, name := range a.names {
		symbols[name] = encoders.Symbol(s)
	}
	words := strings.Fields(sequence)
	cut := len(words) > 0 && words[len(words)-1] == "..."
	if cut {
		words = words[:len(words)-1]
	}
	for i, w := range words {
		if q = f.next(q, symbols[w]); q == none {
			return fmt.Errorf("%q: no arc for symbol %d, %s", sequence, i, w)
		}
	}
	if q = f.next(q, encoders.End); q == none && !cut {
		return fmt.Errorf("%q cannot end", sequence)
	}
	return nil
}

func TestAutomatonRefusesBadOptions(t *testing.T) {
	for _, k := range []int{0, -1, MaxK + 1} {
		if _, err := NewAutomatonEncoder(encoders.NewAlphabet(), AutomatonOptions{K: k}, encoders.Limits{}); err == nil {
			t.Errorf("k = %d is accepted", k)
		}
	}
}

// An arc counts how often it was taken, and its symbols' times.
func TestAutomatonStatistics(t *testing.T) {
	a := encoders.NewAlphabet()
	e, _ := NewAutomatonEncoder(a, AutomatonOptions{K: 3}, encoders.Limits{})
	x, y := a.Symbol("x"), a.Symbol("y")
	e.Append([]encoders.Symbol{x, y, y}, []int64{5, 1, 2})
	e.Append([]encoders.Symbol{y, y, y, x}, []int64{1, 1, 1, 7})
	got, err := json.Marshal(e.Encode())
	want := `{"encoding":"automaton","sequences":1,"symbols":7,"k":3,"loops":true,"merge":"shared","states":4,"start":0,"final":3,"arcs":[` +
		`{"from":0,"symbol":"x","to":1,"stats":{"count":1,"timed":1,"sum_ns":5,"sumsq_ns2":25}},` +
		`{"from":1,"symbol":"y","to":1,"stats":{"count":5,"timed":5,"sum_ns":6,"sumsq_ns2":8}},` +
		`{"from":1,"symbol":"x","to":2,"stats":{"count":1,"timed":1,"sum_ns":7,"sumsq_ns2":49}},` +
		`{"from":2,"end":true,"to":3,"stats":{"count":1}}]}`
	if string(got) != want || err != nil {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}

// randomSequences are sequences with repetitions, some cut.
func randomSequences(most int) *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		letters := strings.Split("ABCDEFGH"[:rapid.IntRange(1, 5).Draw(t, "letters")], "")
		one := rapid.Custom(func(t *rapid.T) string {
			var s []string
			for range rapid.IntRange(0, 12).Draw(t, "parts") {
				part := rapid.SliceOfN(rapid.SampledFrom(letters), 1, 3).Draw(t, "part")
				for range rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(t, "times") {
					s = append(s, part...)
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
				s = append(s, "...")
			}
			return strings.Join(s, " ")
		})
		return rapid.SliceOfN(one, 1, most).Draw(t, "sequences")
	})
}

func randomOptions(t *rapid.T) AutomatonOptions {
	return AutomatonOptions{
		K:       rapid.IntRange(1, 4).Draw(t, "k"),
		NoLoops: rapid.Bool().Draw(t, "basic"),
		Rule:    rapid.SampledFrom([]MergeRule{Shared, Included, Equal}).Draw(t, "rule"),
	}
}

// For all options: the input is accepted, the automaton is deterministic, every
// symbol was counted, and no two states are equivalent.
func TestAutomatonProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := randomOptions(t)
		sequences := randomSequences(4).Draw(t, "sequences")
		a := automatonOf(t, o, sequences...)
		symbols, ends := 0, 0
		for _, s := range sequences {
			if err := a.accepts(s); err != nil {
				t.Fatalf("%v\n%s", err, a)
			}
			words := strings.Fields(s)
			symbols += len(words)
			if len(words) > 0 && words[len(words)-1] == "..." {
				symbols--
			} else {
				ends++
			}
		}
		var counted, ended int64
		for i, l := range a.Arcs() {
			if l.Symbol == encoders.End {
				ended += l.Stats.Count
			} else {
				counted += l.Stats.Count
			}
			if i > 0 && a.Arcs()[i-1].From > l.From {
				t.Fatalf("arcs are not in order of states")
			}
		}
		if int(counted) != symbols || int(ended) != ends {
			t.Fatalf("%d symbols, %d ends counted of %d, %d\n%s", counted, ended, symbols, ends, a)
		}
		if _, n := a.automaton().equivalent(); n != a.States() {
			t.Fatalf("%d states could be %d\n%s", a.States(), n, a)
		}
	})
}

// The order of the sequences, and how they were merged on the way, does not
// show in the automaton.
func TestAutomatonOfSequencesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := randomOptions(t)
		sequences := randomSequences(5).Draw(t, "sequences")
		want := automatonOf(t, o, sequences...).String()
		order := rapid.Permutation(sequences).Draw(t, "order")
		if got := automatonOf(t, o, order...).String(); got != want {
			t.Fatalf("%q:\n%s\n%q:\n%s", sequences, want, order, got)
		}
		cut := rapid.IntRange(1, len(order)).Draw(t, "cut")
		left := automatonOf(t, o, order[:cut]...)
		if cut < len(order) {
			both, err := automatonOf(t, o, order[cut:]...).Merge([]encoders.Encoding{left})
			if err != nil {
				t.Fatalf("%v", err)
			}
			left = both.(*Automaton)
		}
		if got := left.String(); got != want {
			t.Fatalf("merged in two parts, %q:\n%s\nwant\n%s", order, got, want)
		}
	})
}

// A longer tail does not accept more.
func TestLongerTailsAreStricter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := randomOptions(t)
		o.NoLoops = true // the modifications create loops that do not depend on k
		o.Rule = Shared
		sequences := randomSequences(3).Draw(t, "sequences")
		short := automatonOf(t, o, sequences...)
		o.K++
		long := automatonOf(t, o, sequences...)
		q, p := int32(0), int32(0)
		for i := range 60 { // a walk through the stricter one
			arcs := long.automaton().arcsFrom(p)
			if len(arcs) == 0 {
				break
			}
			a := arcs[rapid.IntRange(0, len(arcs)-1).Draw(t, "way")]
			if q = short.automaton().next(q, a.symbol); q == none {
				t.Fatalf("k = %d goes on after %d symbols, k = %d does not\n%s\n\n%s", o.K, i, o.K-1, long, short)
			}
			p = a.to
		}
	})
}

// The automaton does not depend on how the sequence is divided, nor on whether it
// is encoded meanwhile; an earlier encoding does not change either.
func TestAutomatonWhileItGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := randomOptions(t)
		s := rapid.SliceOfN(rapid.Uint32Range(1, 3), 0, 600).Draw(t, "symbols")
		a := encoders.NewAlphabet()
		for _, n := range []string{"A", "B", "C"} {
			a.Symbol(n)
		}
		whole, _ := NewAutomatonEncoder(a, o, encoders.Limits{})
		whole.Append(s, nil)
		pieces, _ := NewAutomatonEncoder(a, o, encoders.Limits{})
		cut := rapid.IntRange(0, len(s)).Draw(t, "cut")
		pieces.Append(s[:cut], nil)
		half := pieces.Encode()
		before := half.String()
		pieces.Append(s[cut:], nil)
		if got, want := pieces.Encode().String(), whole.Encode().String(); got != want {
			t.Fatalf("in pieces:\n%s\nwhole:\n%s", got, want)
		}
		if half.String() != before {
			t.Fatalf("an encoding changed")
		}
	})
}

// Over its budget an automaton stays unchanged and reports it.
func TestAutomatonBudget(t *testing.T) {
	a := encoders.NewAlphabet()
	for i := range 4000 {
		a.Symbol(fmt.Sprint(i))
	}
	const budget = 1 << 20
	e, _ := NewAutomatonEncoder(a, AutomatonOptions{K: 4}, encoders.Limits{Budget: budget})
	state := uint32(1)
	for range 200 {
		var s []encoders.Symbol
		for range 1000 {
			state = state*1664525 + 1013904223
			s = append(s, 1+state>>20%4000)
		}
		e.Append(s, nil)
	}
	if e.Bytes() > 3*budget {
		t.Errorf("holds %d bytes", e.Bytes())
	}
	of := e.Encode().Of()
	if of.Symbols != 200_000 || of.Complete() || of.Encoded == 0 {
		t.Errorf("%+v", of)
	}
	if text := e.Encode().String(); !strings.Contains(text, fmt.Sprintf("-- the first %d of 200000 symbols", of.Encoded)) {
		t.Errorf("...%s", text[len(text)-100:])
	}
}
