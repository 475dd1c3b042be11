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

// CostMonitor measures what it costs the target that an action's probes are
// attached while the action waits: each call traps and is then ignored. The
// cost is measured because neither call rates nor the cost of a trap are the
// same everywhere: where the kernel must single-step the instruction, a trap
// costs forty times as much. Its methods are for one goroutine at a time.
type CostMonitor struct {
	limit   float64 // share of a processor; 0: no limit
	sources []probes.Source
	waitNs  []float64 // cost of an ignored call, by source
	was     []uint64  // calls ignored until the last check, by source
	at      time.Time
	ticker  *time.Ticker // nil: nothing is monitored
}

const (
	// WaitingShare is the share of a processor that a waiting action may cost.
	WaitingShare = 0.02
	// firstLook is how long calls are counted when a trigger is created, so
	// that the notice can be given then. lookInterval is the interval of later
	// checks, since rates change.
	firstLook    = 30 * time.Millisecond
	lookInterval = 500 * time.Millisecond
)

// LateAsRequested is the reason for which an action's probes are attached late
// if SET trigger_arming says so.
const LateAsRequested = "trigger_arming is attach"

// NewCostMonitor returns a monitor configured by SET trigger_arming.
func NewCostMonitor(arming string) *CostMonitor {
	if arming == "gate" {
		return &CostMonitor{}
	}
	return &CostMonitor{limit: WaitingShare}
}

// LateBySetting returns the reason for which trigger_arming has the probes of a
// plan attached late; "" if it does not, or if there are no probes.
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

// ObservesFunctions reports whether an acquisition observes calls of functions.
func ObservesFunctions(a *plan.Acquire) bool {
	c := catalog.Find(a.Stream)
	return c != nil && c.Functions
}

// LateNotice returns the notice that an action is armed late.
func LateNotice(act *planner.Action, why string) string {
	return fmt.Sprintf("%s is attached when the trigger is activated, which takes some 10 ms: %s", act.Text, why)
}

// watch starts to monitor a standby query; nil stops monitoring.
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

// shut starts to monitor a source whose gate is shut.
func (v *CostMonitor) shut(s probes.Source) {
	if v.limit > 0 {
		v.sources = []probes.Source{s}
		v.begin()
	}
}

// begin takes the first readings of the sources.
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

// end stops monitoring.
func (v *CostMonitor) end() {
	if v.ticker != nil {
		v.ticker.Stop()
		v.ticker = nil
	}
}

// tick returns the channel that signals when to call check; nil if nothing is
// monitored.
func (v *CostMonitor) tick() <-chan time.Time {
	if v.ticker == nil {
		return nil
	}
	return v.ticker.C
}

// first waits for a moment, then checks.
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

// check returns the reason why waiting costs too much, given the cost since the
// last check; "" if it does not.
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
