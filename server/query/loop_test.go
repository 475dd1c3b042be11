package query

import (
	"context"
	"slices"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/server/flow"
)

// The result of an interval includes rows that were queued in it while the
// runner was busy.
func TestTickTakesWhatIsQueued(t *testing.T) {
	var got []string
	op := &said{say: func(s string) { got = append(got, s) }}
	q := flow.NewQueue(10)
	r := &runner{Query: &Query{queue: q, collector: &collector{}, Leaves: []graph.Leaf{{Op: op}}, started: time.Now()}, every: time.Second}
	q.Push(flow.Item{Batch: batch.New(nil)}, false)
	if err := r.tickDue(t.Context()); err != nil || !slices.Equal(got, []string{"rows", "signal"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// said is an operator that records its input.
type said struct {
	operators.Operator
	say func(string)
}

func (o *said) Push(context.Context, int, *batch.Batch) (operators.Status, error) {
	o.say("rows")
	return operators.More, nil
}

func (o *said) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	o.say("signal")
	return operators.More, nil
}
