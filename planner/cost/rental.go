package cost

// Rental decides when the probes of a closed gate are detached. This is the ski rental
// problem: calls that meet the gate pay for their traps (rent), or the probes are detached
// and attached again (buy). A closed time is predicted to be as long as the earlier ones:
// if buying would have been better for those, it buys early, else late (Purohit, Svitkina
// and Kumar, Improving Online Algorithms via ML Predictions, NeurIPS 2018, section 2.2).
// The cost is at most 1 + Trust times the best choice if the prediction is right, and 1 +
// 1/Trust times in any case. The zero Rental has no prediction, and costs at most twice the
// best choice.
type Rental struct {
	whole float64 // predicted cost in ns of a closed time with probes attached: a mean of the last few
	known bool
}

// Trust sets how little the prediction is trusted: 1 means not at all.
const Trust = 0.25

// recent is the weight of the last closed time.
const recent = 0.25

// Limit returns the cost in ns of traps at the closed gate after which its probes are
// detached; flip is the cost of detaching and attaching, ns.
func (r *Rental) Limit(flip float64) float64 {
	switch {
	case !r.known:
		return flip
	case r.whole >= flip:
		return flip * Trust
	}
	return flip / Trust
}

// Ended records the cost, ns, of a closed time that is over, as if the probes had stayed
// attached.
func (r *Rental) Ended(whole float64) {
	if !r.known {
		r.whole, r.known = whole, true
		return
	}
	r.whole += recent * (whole - r.whole)
}
