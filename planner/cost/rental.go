package cost

// Rental decides when a gate that has been closed for some time has its probes
// detached: calls that meet it pay for their traps, as skis are rented, and to
// detach and attach is to buy. A time in which the gate is closed is taken to be as
// long as those before: if to buy would have been better then, it buys early, else
// late (Purohit, Svitkina and Kumar, Improving Online Algorithms via ML Predictions,
// NeurIPS 2018, section 2.2). That costs at most 1 + Trust times as much as the best
// choice where the times before tell the truth, and 1 + 1/Trust times whatever comes.
// The zero Rental knows of no time before, and costs at most twice as much.
type Rental struct {
	whole float64 // ns that a closed time would have cost with its probes: a mean of the last few
	known bool
}

// Trust is how little the past is trusted: 1 not at all.
const Trust = 0.25

// recent is the weight of the last closed time.
const recent = 0.25

// Limit is how many ns traps at the closed gate may cost before its probes are
// detached; flip is the price of detaching and attaching, ns.
func (r *Rental) Limit(flip float64) float64 {
	switch {
	case !r.known:
		return flip
	case r.whole >= flip:
		return flip * Trust
	}
	return flip / Trust
}

// Ended tells what a closed time that is over cost, ns, or would have cost had
// the probes stayed.
func (r *Rental) Ended(whole float64) {
	if !r.known {
		r.whole, r.known = whole, true
		return
	}
	r.whole += recent * (whole - r.whole)
}
