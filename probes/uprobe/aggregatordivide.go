package uprobe

import (
	"sync/atomic"

	"endoscope/probes"
	"endoscope/probes/clock"
)

// divide cuts where it changes to the other slot of states: partial rows are
// sums, so that whoever gets those from the cut on has the sum from the cut on.
func (a *aggregator) divide(begin func(probes.Cut), done func()) error {
	given, err := a.divideNow(begin, done)
	if given != nil {
		<-given
	}
	return err
}

// divideNow is divide, but for waiting until the reader gave what came before.
func (a *aggregator) divideNow(begin func(probes.Cut), done func()) (given <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, nil
	}
	if a.pane != endless {
		if err := a.halve(clock.Boot()); err != nil {
			return nil, err
		}
	}
	slot, pane := a.slot, a.begins
	a.reader.do(func() {
		// Here, so that events that find no slot are divided as those that do.
		var cut probes.Cut
		if cut, err = a.sub.cut(); err != nil {
			return
		}
		begin(cut)
		at := cut.At - a.offset
		atomic.StoreUint64(a.divided, uint64(at))
		if a.pane == endless {
			a.advance(at)
		} else {
			a.advance(pane)
		}
	})
	if err != nil {
		return nil, err
	}
	return a.finish(slot, pane, a.pane != endless, func() {
		a.sub.account()
		done()
	})
}
