package program

import (
	"sync/atomic"

	"endoscope/probes"
	"endoscope/probes/clock"
)

// Divide cuts the stream where it switches to the other slot of states. Partial rows are
// sums, so those from the cut on add up to the sum from the cut on.
func (a *Aggregator) Divide(begin func(probes.Cut), done func()) error {
	given, err := a.divideNow(begin, done)
	if given != nil {
		<-given
	}
	return err
}

// divideNow is Divide without waiting until the reader has sent the rows before the cut.
func (a *Aggregator) divideNow(begin func(probes.Cut), done func()) (given <-chan struct{}, err error) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.ended {
		return nil, nil
	}
	if a.Pane != Endless {
		if err := a.halve(clock.Boot()); err != nil {
			return nil, err
		}
	}
	slot, pane := a.slot, a.Begins
	a.Reader.Do(func() {
		// In the executor, so that events that find no slot are divided at the same cut
		// as those that do.
		var cut probes.Cut
		if cut, err = a.Sub.Cut(); err != nil {
			return
		}
		begin(cut)
		at := cut.At - a.offset
		atomic.StoreUint64(a.divided, uint64(at))
		if a.Pane == Endless {
			a.advance(at)
		} else {
			a.advance(pane)
		}
	})
	if err != nil {
		return nil, err
	}
	return a.finish(slot, pane, a.Pane != Endless, func() {
		a.Sub.Account()
		done()
	})
}
