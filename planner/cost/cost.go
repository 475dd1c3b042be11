package cost

// Input is what is known of one acquisition that takes part in window joins.
// The paper's names are in brackets.
type Input struct {
	// Rate is how many events there are each second, acquired or not (f').
	Rate float64
	// Open is what an event costs that is acquired, in ns (C).
	Open float64
	// Shut is what an event costs while the input's gate is closed, in ns: the
	// trap of a probe that returns at once, or the tick of a sampler that rests;
	// 0 where nothing is attached meanwhile.
	Shut float64
	// Needed is the share of time in which its gate is open if that is left to
	// its opener (T_long for the CPU's load, T_busy for the functions). The join's
	// window counts: a gate stays open for that long behind a tuple.
	Needed float64
	// Openings is how often its gate is opened each second, if that is left to
	// its opener.
	Openings float64
	// Wake is what each opening costs, in ns, besides.
	Wake float64
	// Flip is what it takes to detach the input and to attach it again, in ns,
	// which happens as Rental says; 0 if that cannot be.
	Flip float64
}

// None says that an input has no gate, or one that is held open.
const None = -1

// Strategy says for each input which other one opens its gate; None: it is
// acquired all the time.
type Strategy []int

// AllOn acquires n inputs all the time.
func AllOn(n int) Strategy {
	s := make(Strategy, n)
	for i := range s {
		s[i] = None
	}
	return s
}

// Of is the cost of a strategy in ns per second:
//
//	Σ f'ᵢ · (Tᵢ · Cᵢ + (1 − Tᵢ) · Sᵢ)
//
// where Tᵢ is the share of time in which input i's gate is open. With S = 0 and
// two inputs these are the paper's costs of its plans 1, 2 and 3. An input that
// can be detached costs hardly more, while it is shut, than its Flip for each time
// that it is (Rental).
func Of(inputs []Input, s Strategy) float64 {
	var ns float64
	for i, in := range inputs {
		open := Share(inputs, s, i)
		shut := in.Rate * (1 - open) * in.Shut
		if in.Flip > 0 {
			shut = min(shut, (1+Trust)*in.Flip*in.Openings)
		}
		ns += in.Rate*open*in.Open + shut
		if s[i] != None {
			ns += in.Openings * in.Wake
		}
	}
	return ns
}

// Share is the share of time in which the gate of input i is open. A gate whose
// opener has a gate itself is open no longer than either: how much less is not
// known, for the two seldom have nothing to do with each other.
func Share(inputs []Input, s Strategy, i int) float64 {
	open := 1.0
	for steps := 0; s[i] != None && steps < len(s); steps++ {
		open = min(open, inputs[i].Needed)
		i = s[i]
	}
	return open
}
