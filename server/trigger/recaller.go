package trigger

import (
	"context"
	"encoding/json"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/probes/recall"
	"endoscope/server/flow"
	"endoscope/server/query"
)

// Recaller is RECALL: its query runs all the time, and its rows of the last time are
// published when the trigger is activated. Calls of functions are recorded in the kernel,
// where the programs of the trigger's condition recall them (package recall). Samples are
// kept here.
type Recaller struct {
	Notices []string // of the query, for the user who creates the trigger
	t       *Trigger
	run     *query.Query
	set     *recall.Set // nil: samples
	rows    recallRows
	begun   bool
}

// recallRows is the last operator of a RECALL's query. An activation is reported by another
// goroutine than the one that pushes.
type recallRows interface {
	operators.Operator
	activate(a activation)
	// finish publishes what is left when neither rows nor activations follow.
	finish()
}

// NewRecaller prepares the query of an action with a plan. bytes is the memory for recorded
// calls.
func NewRecaller(ctx context.Context, t *Trigger, act *planner.Action, p *plan.Query, bytes int64, prepare func(context.Context, *plan.Query) (*query.Query, error)) (_ *Recaller, err error) {
	records := act.Records()
	if records {
		if err := kernelDecides(t.When); err != nil {
			return nil, err
		}
	}
	run, err := prepare(ctx, Kept(act, p))
	if err != nil {
		return nil, err
	}
	if err := run.Refusal(); err != nil {
		run.Abandon()
		return nil, planner.Placed(err, run.Text)
	}
	r := &Recaller{t: t, run: run, Notices: run.Notices()}
	out := newRecallOutput(run, t.Stream, act.Text)
	if records {
		if r.set, err = recall.New(bytes, int64(act.For), clock.Offset()); err != nil {
			run.Abandon()
			return nil, err
		}
		run.Feeds[0].Options.Record, t.When.Feeds[0].Options.Recall = r.set, r.set
		r.rows = &recorded{recallOutput: out, set: r.set, waiting: map[int64][]int64{}, ready: map[int64][]recalled{}}
	} else {
		r.rows = &kept{recallOutput: out, last: int64(act.For)}
	}
	run.Last = r.rows
	return r, nil
}

// Kept returns the plan of a RECALL with the acquisition of calls recorded in the kernel.
func Kept(act *planner.Action, p *plan.Query) *plan.Query {
	if !act.Records() {
		return p
	}
	return withAcquires(p, func(a *plan.Acquire) { a.Settings.Recall = act.For })
}

// kernelDecides refuses a trigger's query whose condition the kernel does not evaluate.
func kernelDecides(when *query.Query) error {
	f := when.Feeds[0]
	if rest := f.OwnInfo.Residual; rest != nil {
		return planner.Placed(plan.Errorf(f.Spec.Start, f.Spec.Stop, "RECALL needs a condition that the kernel evaluates, and it does not evaluate %s", rest).
			WithHint("conditions on numbers, durations and names; MONITOR and SELECT have no such limit"), when.Text)
	}
	return nil
}

// Begin starts the query. The trigger's own stands by already: the kernel runs the programs
// that are attached last first, so that the event of a call that activates the trigger is
// recorded before it is recalled.
func (r *Recaller) Begin() error {
	if err := r.t.BeginQuery(r.run); err != nil {
		return err
	}
	r.begun = true
	if names := r.set.LeftOut(); names != "" {
		r.t.Notices = append(r.t.Notices, "RECALL leaves out what would cost more than the overhead: "+names)
	}
	return nil
}

// BeginRecallers starts the queries of RECALL, and has that of the trigger stand by.
func (t *Trigger) BeginRecallers(ctx context.Context) error {
	var all []*Recaller
	for _, a := range t.Actors {
		if r, ok := a.(*Recaller); ok {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if err := t.When.StandBy(ctx); err != nil {
		return err
	}
	for _, r := range all {
		if err := r.Begin(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recaller) activate(a activation) { r.rows.activate(a) }

func (r *Recaller) deactivate(int64) {}

func (r *Recaller) finish() {
	if r.begun {
		r.run.End()
	} else {
		r.run.Abandon()
	}
}

func (r *Recaller) wait() {
	if r.begun {
		<-r.run.Done
		r.t.endQuery(r.run)
		if err := r.run.Failure(); err != nil {
			r.t.fail(err)
		}
		r.rows.finish()
	}
	r.set.Close()
}

// Status implements Actor.
func (r *Recaller) Status() actorStatus { return actorStatus{} }

// recallOutput publishes rows on the trigger's stream.
type recallOutput struct {
	stream *Stream
	tally  *flow.Tally
	action string
	row    func([]byte, *batch.Batch, int) []byte
	time   int // index of the time column; -1: none
}

func newRecallOutput(q *query.Query, stream *Stream, action string) recallOutput {
	p := publish(q, stream, action)
	return recallOutput{stream: stream, tally: q.Tally, action: action, row: p.row, time: p.time}
}

// recalled is what an activation recalls: a summary, and rows as JSON.
type recalled struct {
	recall.Summary
	rows []string
}

// publish publishes what activation n recalled: the summary, and the rows. All have the time
// of the activation.
func (o *recallOutput) publish(n int64, r recalled) {
	head := struct {
		Recalled int    `json:"recalled"`
		Since    string `json:"since,omitempty"`
		Complete bool   `json:"complete"`
		Reason   string `json:"reason,omitempty"`
	}{Recalled: len(r.rows), Complete: r.Complete, Reason: r.Reason}
	if r.Since != 0 {
		head.Since = time.Unix(0, r.Since).UTC().Format(types.TimeFormat)
	}
	first, _ := json.Marshal(head) // it has texts and numbers only
	out := make([]streamRow, 0, 1+len(r.rows))
	out = append(out, streamRow{at: r.At, activation: n, action: o.action, row: string(first)})
	for _, row := range r.rows {
		out = append(out, streamRow{at: r.At, activation: n, action: o.action, row: row})
	}
	o.stream.publish(out...)
}

// Close implements operators.Operator.
func (o *recallOutput) Close(context.Context, int) error { return nil }

// gap counts losses on the way to the operator.
func (o *recallOutput) gap(s operators.Signal) {
	if s.Kind == operators.Gap {
		o.tally.AddLost(s.Cause, s.N)
	}
}
