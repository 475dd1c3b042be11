package slicing

import "time"

const (
	// saved is for how long what was not spent can be spent later: it bounds what a window of
	// a second takes beyond its budget, with one slice.
	saved = 200 * time.Millisecond
	// memory is over how long the use of processors is averaged.
	memory = 500 * time.Millisecond
)

// Account compares what slices cost with what is left for them of a budget: a share of the
// processor time that the program uses, or of a floor. Its zero value with Share and Floor is
// balanced.
type Account struct {
	Share, Floor float64
	debt         float64 // ns spent and not earned; negative: earned and not spent
	owed         float64 // ns of it that is repaid at a rate, apart from the others
	rate         float64
	cpus         float64 // that the program uses without probes
	apart        float64 // what is spent in a time beside slices
}

// Add adds what happened in a time: the program's progress without probes, what slices cost,
// and what else was spent; all in ns.
func (a *Account) Add(took, net, sliced, apart int64) {
	t := float64(max(took, 1))
	f := min(t/float64(memory), 1)
	repaid := min(a.owed, a.rate*t)
	a.owed -= repaid
	other := float64(max(apart, 0)) + repaid
	a.cpus += f * (float64(max(net, 0))/t - a.cpus)
	a.apart += f * (other/t - a.apart)
	earned := a.Share * max(float64(net), a.Floor*t)
	a.debt += float64(sliced) - max(earned-other, leastForSlices*earned)
	a.debt = max(a.debt, -a.Earning()*float64(saved))
}

// Begin sets the number of processors that the program uses. What was spent before is
// forgotten.
func (a *Account) Begin(cpus float64) { a.cpus, a.debt = cpus, 0 }

// repayTime is over how long a debt is repaid that was made at once.
const repayTime = 10 * time.Second

// Spread makes what was spent and is not earned a debt that is repaid over repayTime, from what
// slices leave of the budget at the least.
func (a *Account) Spread() {
	a.owed, a.debt = max(a.debt, 0), min(a.debt, 0)
	a.rate = a.owed / float64(repayTime)
}

// CPUs returns the number of processors that the program uses without probes.
func (a *Account) CPUs() float64 { return a.cpus }

// Load returns the load of the program.
func (a *Account) Load() Load { return Load{a.cpus, a.Floor} }

// Earning returns what may be spent in a time.
func (a *Account) Earning() float64 { return a.Share * max(a.cpus, a.Floor) }

// Wait returns how long it takes until what was spent is earned. What is spent next is earned
// afterwards.
func (a *Account) Wait() time.Duration {
	return time.Duration(max(a.debt, 0) / a.Earning())
}

// leastForSlices is the part of the budget that slices have at the least, however much else the
// engine does: without any there would be no estimates.
const leastForSlices = 0.1

// ForSlices returns what may be spent on slices in a time.
func (a *Account) ForSlices() float64 {
	e := a.Earning()
	return max(e-a.apart, leastForSlices*e)
}

// Gap returns the mean time between slices that cost this much each.
func (a *Account) Gap(cost float64) time.Duration { return time.Duration(cost / a.ForSlices()) }
