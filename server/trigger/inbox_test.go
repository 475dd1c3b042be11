package trigger

import (
	"sync"
	"testing"

	"endoscope/planner"
)

// The summary of a session's triggers may be read while triggers are
// unfollowed.
func TestSummaryWhileTriggersGo(t *testing.T) {
	in := NewInbox()
	var made []*Trigger
	for range 1000 {
		tr := &Trigger{Plan: &planner.Trigger{Name: "t"}, Stream: NewStream(), Ledger: NewLedger()}
		in.Follow(tr)
		made = append(made, tr)
	}
	r := &triggered{in: in, stop: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for _, tr := range made {
			in.Unfollow(tr)
		}
	})
	for range 100 {
		r.Summary()
	}
	all.Wait()
}
