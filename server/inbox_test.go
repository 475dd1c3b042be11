package server

import (
	"sync"
	"testing"

	"endoscope/planner"
)

// The summary of a session's triggers may be asked for while some are taken back.
func TestSummaryWhileTriggersGo(t *testing.T) {
	in := newInbox()
	var made []*trigger
	for range 1000 {
		tr := &trigger{plan: &planner.Trigger{Name: "t"}, stream: newTriggerStream(), ledger: newLedger()}
		in.follow(tr)
		made = append(made, tr)
	}
	r := &triggered{in: in, stop: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for _, tr := range made {
			in.unfollow(tr)
		}
	})
	for range 100 {
		r.Summary()
	}
	all.Wait()
}
