package trigger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes"
)

// costMonitor measures what it costs the target that an action's probes are
// attached while the action waits: each call traps and is then ignored. The
// cost is measured because neither call rates nor the cost of a trap are the
// same everywhere: where the kernel must single-step the instruction, a trap
// costs forty times as much. Its methods are for one goroutine at a time.
type costMonitor struct {
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
	// firstCheck is how long calls are counted when a trigger is created, so
	// that the notice can be given then. checkInterval is the interval of later
	// checks, since rates change.
	firstCheck    = 30 * time.Millisecond
	checkInterval = 500 * time.Millisecond
)

// LateAsRequested is the reason for which an action's probes are attached late
// if SET trigger_arming says so.
const LateAsRequested = "trigger_arming is attach"

// newCostMonitor returns a monitor configured by SET trigger_arming.
func newCostMonitor(arming string) *costMonitor {
	if arming == "gate" {
		return &costMonitor{}
	}
	return &costMonitor{limit: WaitingShare}
}

// LateBySetting returns the reason for which trigger_arming has the probes of a
// plan attached late; "" if it does not, or if there are no probes.
func LateBySetting(arming string, p *plan.Query) string {
	if arming != "attach" {
		return ""
	}
	for _, a := range plan.Leaves(p.Root) {
		if observesFunctions(a) {
			return LateAsRequested
		}
	}
	return ""
}

// LateNotice returns the notice that an action is armed late.
func LateNotice(act *planner.Action, why string) string {
	return fmt.Sprintf("%s is attached when the trigger is activated, which takes some 10 ms: %s", act.Text, why)
}

// watch monitors these sources from now on; none: it stops monitoring. If they
// are monitored already, it does nothing.
func (m *costMonitor) watch(waiting []probes.Source) {
	if m.limit == 0 || slices.Equal(m.sources, waiting) {
		return
	}
	m.end()
	m.sources = waiting
	if len(waiting) == 0 {
		return
	}
	m.was, m.waitNs = make([]uint64, len(waiting)), nil
	for _, s := range waiting {
		m.waitNs = append(m.waitNs, s.Info().WaitNs)
	}
	m.check()
	m.ticker = time.NewTicker(checkInterval)
}

// end stops monitoring.
func (m *costMonitor) end() {
	if m.ticker != nil {
		m.ticker.Stop()
		m.ticker = nil
	}
}

// tick returns the channel that signals when to call check; nil if nothing is
// monitored.
func (m *costMonitor) tick() <-chan time.Time {
	if m.ticker == nil {
		return nil
	}
	return m.ticker.C
}

// first waits for a moment, then checks.
func (m *costMonitor) first(ctx context.Context) (late string) {
	if m.ticker == nil {
		return ""
	}
	select {
	case <-time.After(firstCheck):
	case <-ctx.Done():
	}
	return m.check()
}

// check returns the reason why waiting costs too much, given the cost since the
// last check; "" if it does not.
func (m *costMonitor) check() (late string) {
	now, busy := time.Now(), 0.0
	for i, s := range m.sources {
		calls := s.Stats().Waited
		busy += float64(calls-m.was[i]) * m.waitNs[i]
		m.was[i] = calls
	}
	share := busy / float64(max(now.Sub(m.at), 1))
	m.at = now
	if share <= m.limit {
		return ""
	}
	return fmt.Sprintf("calls would take %.0f %% of a CPU while it waits, more than the limit of %.0f %% (SET trigger_arming = gate removes the limit)", 100*share, 100*m.limit)
}
