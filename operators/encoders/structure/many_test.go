package structure

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

// manySequences is how many sequences TestManySequences encodes, in so many parts.
const (
	manySequences = 20_000
	manyParts     = 10
)

// Many short sequences, pieces of adversarial input and noise: each
// satisfies the invariants of Sequitur, decodes from one of the lossless
// encodings, and is accepted by its own automaton.
func TestManySequences(t *testing.T) {
	names := slices.Sorted(maps.Keys(adversaries))
	long := make([][]encoders.Symbol, len(names))
	for i, name := range names {
		long[i] = adversaries[name](5000)
	}
	kinds := slices.Sorted(maps.Keys(lossless))
	each := manySequences / manyParts
	if testing.Short() {
		each /= 2
	}
	for part := range manyParts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(part), 17))
			a := enctest.Letters()
			for i := range each {
				n := random.IntN(40)
				if i%100 == 0 {
					n = 500
				}
				var in []encoders.Symbol
				if which := random.IntN(len(long) + 3); which < len(long) {
					at := random.IntN(len(long[which]) - n)
					in = long[which][at : at+n]
				} else {
					in = noise(random, 1+random.Uint32N(6), n)
				}
				if err := checkInvariants(a, in, kinds[i%len(kinds)], AutomatonOptions{K: 1 + i%4, NoLoops: i%3 == 0, Rule: MergeRule(i % 7 % 3)}); err != nil {
					t.Fatalf("%v\n%s", err, text(a, in))
				}
			}
		})
	}
}

// checkInvariants encodes one sequence in several ways.
func checkInvariants(a *encoders.Alphabet, in []encoders.Symbol, kind string, o AutomatonOptions) error {
	g := newSequitur(len(in)%2 == 0)
	for _, s := range in {
		g.append(s, 0)
	}
	if err := g.wellFormed(); err != nil {
		return err
	}
	e := lossless[kind](a, encoders.Limits{})
	e.Append(in, nil)
	x := e.Encode().(encoders.Lossless)
	if err := encoders.Verify(x); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if got := decoded(x, 0); !slices.Equal(got, in) {
		return fmt.Errorf("%s decodes to %s", kind, text(a, got))
	}
	m, err := NewAutomatonEncoder(a, o, encoders.Limits{})
	if err != nil {
		return err
	}
	m.Append(in, nil)
	model, err := NewModel(m.Encode())
	if err != nil {
		return err
	}
	c, err := NewConformanceEncoder(a, model, ConformanceOptions{}, encoders.Limits{})
	if err != nil {
		return err
	}
	c.Append(in, nil)
	if verdict := c.Encode().(*Conformance); !verdict.Conforms() {
		return fmt.Errorf("the automaton of %+v does not accept it: %s", o, verdict)
	}
	return nil
}

func text(a *encoders.Alphabet, in []encoders.Symbol) string {
	var b []byte
	for _, s := range in {
		b = encoders.AppendName(append(b, ' '), a.Names(), s)
	}
	return string(b)
}
