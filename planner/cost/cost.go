package cost

// Input describes one acquisition that takes part in window joins. The paper's names are in
// brackets.
type Input struct {
	// Rate is the number of events per second, acquired or not (f').
	Rate float64
	// Open is the cost of an acquired event, in ns (C).
	Open float64
	// Shut is the cost of an event while the input's gate is closed, in ns: the trap of a
	// probe that returns at once, or the tick of a sampler that rests; 0 if nothing is
	// attached then.
	Shut float64
	// Needed is the share of time in which its gate is open if its opener controls it
	// (T_long for the CPU's load, T_busy for the functions). It includes the join's window:
	// a gate stays open that long after a tuple.
	Needed float64
	// Openings is the number of openings of its gate per second, if its opener controls it.
	Openings float64
	// Wake is the additional cost of each opening, in ns.
	Wake float64
	// Flip is the cost of detaching and attaching the input, in ns, which Rental decides; 0
	// if it cannot be detached.
	Flip float64
}

// None is the opener of an input without a gate, or with one that is held open.
const None = -1

// Strategy holds for each input the input that opens its gate; None: it is acquired all the
// time.
type Strategy []int

// AllOn returns the strategy that acquires n inputs all the time.
func AllOn(n int) Strategy {
	s := make(Strategy, n)
	for i := range s {
		s[i] = None
	}
	return s
}

// Of returns the cost of a strategy in ns per second:
//
//	Σ f'ᵢ · (Tᵢ · Cᵢ + (1 − Tᵢ) · Sᵢ)
//
// where Tᵢ is the share of time in which input i's gate is open. With S = 0 and two inputs
// these are the paper's costs of its plans 1, 2 and 3. While it is shut, an input that can
// be detached costs hardly more than its Flip per closing (Rental).
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

// Share returns the share of time in which the gate of input i is open. If the opener has a
// gate itself, the share is at most the smaller of the two: how much less is unknown,
// because the two are seldom independent.
func Share(inputs []Input, s Strategy, i int) float64 {
	open := 1.0
	for steps := 0; s[i] != None && steps < len(s); steps++ {
		open = min(open, inputs[i].Needed)
		i = s[i]
	}
	return open
}
