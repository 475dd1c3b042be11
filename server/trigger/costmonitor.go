package trigger

import (
	"context"
	"fmt"
	"time"

	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/query"
)

// CostMonitor watches what it costs the target that probes of an action are attached
// while the action waits: each call is a trap, and overlooked. That is measured,
// since neither the rates of calls nor what a trap costs is the same everywhere:
// where the kernel must step the instruction by itself, it is forty times as much.
// Its methods are for one goroutine at a time.
type CostMonitor struct {
	limit   float64 // processors; 0: none
	sources []probes.Source
	waitNs  []float64 // what a call costs that each ignores
	was     []uint64  // calls that each had ignored
	at      time.Time
	ticker  *time.Ticker // nil: nobody looks
}

const (
	// WaitingShare is what an action that waits may take of a processor.
	WaitingShare = 0.02
	// firstLook is for how long calls are counted when a trigger is made, so that
	// it can be said then, and lookInterval how often it is looked at later: rates
	// change.
	firstLook    = 30 * time.Millisecond
	lookInterval = 500 * time.Millisecond
)

// LateAsRequested is why an action's probes are attached late where SET trigger_arming
// says so.
const LateAsRequested = "trigger_arming is attach"

// NewCostMonitor returns a monitor configured by SET trigger_arming.
func NewCostMonitor(arming string) *CostMonitor {
	if arming == "gate" {
		return &CostMonitor{}
	}
	return &CostMonitor{limit: WaitingShare}
}

// LateBySetting is why the probes of a plan are to be attached late; "": they are
// not, or there are none.
func LateBySetting(arming string, p *plan.Query) string {
	if arming != "attach" {
		return ""
	}
	for _, a := range plan.Leaves(p.Root) {
		if ObservesFunctions(a) {
			return LateAsRequested
		}
	}
	return ""
}

// ObservesFunctions reports whether an acquisition is of calls of functions.
func ObservesFunctions(a *plan.Acquire) bool {
	c := catalog.Find(a.Stream)
	return c != nil && c.Functions
}

// LateNotice says that an action is armed late.
func LateNotice(act *planner.Action, why string) string {
	return fmt.Sprintf("%s is attached when the trigger is activated, which takes some 10 ms: %s", act.Text, why)
}

// watch begins to look at a query that stands by; nil: at nothing.
func (v *CostMonitor) watch(q *query.Query) {
	v.end()
	v.sources = nil
	if q == nil || v.limit == 0 {
		return
	}
	for _, f := range q.Feeds {
		if f.Options.Standby {
			v.sources = append(v.sources, f.Source)
		}
	}
	v.begin()
}

// shut begins to look at a source whose gate is shut.
func (v *CostMonitor) shut(s probes.Source) {
	if v.limit > 0 {
		v.sources = []probes.Source{s}
		v.begin()
	}
}

// begin looks at the sources for the first time.
func (v *CostMonitor) begin() {
	if len(v.sources) == 0 {
		return
	}
	v.was, v.waitNs = make([]uint64, len(v.sources)), nil
	for _, s := range v.sources {
		v.waitNs = append(v.waitNs, s.Info().WaitNs)
	}
	v.check()
	v.ticker = time.NewTicker(lookInterval)
}

// end looks no more.
func (v *CostMonitor) end() {
	if v.ticker != nil {
		v.ticker.Stop()
		v.ticker = nil
	}
}

// tick says when to look.
func (v *CostMonitor) tick() <-chan time.Time {
	if v.ticker == nil {
		return nil
	}
	return v.ticker.C
}

// first looks after a moment.
func (v *CostMonitor) first(ctx context.Context) (late string) {
	if v.ticker == nil {
		return ""
	}
	select {
	case <-time.After(firstLook):
	case <-ctx.Done():
	}
	return v.check()
}

// check is why waiting costs too much, going by what it cost since the last look;
// "": it does not.
func (v *CostMonitor) check() (late string) {
	now, busy := time.Now(), 0.0
	for i, s := range v.sources {
		calls := s.Stats().Waited
		busy += float64(calls-v.was[i]) * v.waitNs[i]
		v.was[i] = calls
	}
	share := busy / float64(max(now.Sub(v.at), 1))
	v.at = now
	if share <= v.limit {
		return ""
	}
	return fmt.Sprintf("calls would take %.0f %% of a CPU while it waits, and at most %.0f %% are spent (SET trigger_arming = gate has it wait all the same)", 100*share, 100*v.limit)
}
