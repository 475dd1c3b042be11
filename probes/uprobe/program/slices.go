package program

import (
	"errors"

	"github.com/cilium/ebpf"

	"endoscope/planner/plan"
	"endoscope/probes/clock"
	"endoscope/probes/uprobe/slicing"
)

// BeginSlice says that events begin now: nothing is in the slots. It is for an aggregation
// whose panes have no end.
func (a *Aggregator) BeginSlice() {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if !a.ended {
		a.Begins = clock.Boot()
		a.publish(false)
	}
}

// EndSlice sends what was aggregated since BeginSlice, as of a series of each function and a
// replicate. bound is the boot time that later rows have at the least.
func (a *Aggregator) EndSlice(series func(function int) int, replicate int, bound int64) error {
	a.Mu.Lock()
	if a.ended {
		a.Mu.Unlock()
		return nil
	}
	a.Rows.series, a.Rows.replicate = series, int64(replicate)
	slot, pane := a.slot, a.Begins
	a.advance(clock.Boot())
	a.bound = bound
	given, err := a.finish(slot, pane, false, nil)
	a.Mu.Unlock()
	if err != nil {
		return err
	}
	<-given
	return nil
}

// Expose sends exposures as rows with a time, and from then on lets watermarks pass it up to
// bound; both are boot times.
func (a *Aggregator) Expose(list []slicing.Exposure, at, bound int64) {
	a.Mu.Lock()
	if a.ended {
		a.Mu.Unlock()
		return
	}
	a.Rows.pane = at + a.offset
	for i := range list {
		a.Rows.exposure(&list[i])
	}
	rows := a.Rows.take()
	given := a.Reader.Post(func() { a.Sub.PushPartial(rows, bound) })
	a.Mu.Unlock()
	<-given
}

// exposure adds a row without events.
func (r *partialRows) exposure(e *slicing.Exposure) {
	key := make([]uint64, 2+r.code.KeyWords)
	key[0] = uint64(e.Function) << 32
	r.rows.Put(partialRow{pane: r.pane, key: key, sketch: noSketch, series: int64(e.Series), replicate: int64(e.Replicate), exposure: [plan.HiddenAggs]int64{
		plan.SeenAgg: e.Seen, plan.WholeAgg: e.Whole, plan.SlowAgg: e.Slow, plan.FastAgg: e.Fast, plan.CensoredAgg: e.Censored,
	}})
}

func isEnd(err error) bool { return errors.Is(err, ebpf.ErrKeyNotExist) }
