package optest

import (
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Engine executes plans.
type Engine interface {
	// Run executes a plan whose leaves are relations of in, from the first step to the end
	// of every stream. If there is an error, Output has the results up to it.
	Run(root plan.Node, in *Input) (*Output, error)
}

// Input is everything that happens while a query runs.
type Input struct {
	// Start is when the query is armed, ns since the epoch.
	Start int64
	// Relations are the columns of each stream, by its name in Acquire.Args.
	Relations map[string]types.Schema
	// Steps happen in sequence.
	Steps []Step
}

// StepKind is the kind of a step.
type StepKind uint8

// Kinds of step. Tick and Preview go to every stream.
const (
	Rows      StepKind = iota // one batch of at most batch.MaxRows rows
	Watermark                 // no row below Time will come, except late ones
	Tick                      // the clock has reached Time; an EMIT EVERY interval is over
	Preview                   // the clock has reached Time; a display requests the current result
	Gap                       // N events were lost for Cause
	End                       // the stream ends
)

// Step is one step of one stream.
type Step struct {
	Stream string
	Kind   StepKind
	Rows   [][]types.Value // one value for each column of the relation
	Time   int64           // ns; a watermark over line numbers: a line
	Cause  string
	N      uint64
}

// Output is the result of a query.
type Output struct {
	Results []Result
	// Lost counts by cause; "late" are rows that came after their window.
	Lost map[string]uint64
	// Drained lists the streams that were asked to send no more, in order.
	Drained []string
	// Files are the contents of the files written, by name.
	Files map[string]string
}

// Result is the rows up to a Flush, or up to the end.
type Result struct {
	Rows    [][]types.Value
	Flushed bool // it ended with a Flush
	Preview bool // a snapshot of a result that is not final
}

// Add appends a row to the open result.
func (o *Output) Add(row []types.Value) {
	if n := len(o.Results); n == 0 || o.Results[n-1].Flushed {
		o.Results = append(o.Results, Result{})
	}
	r := &o.Results[len(o.Results)-1]
	r.Rows = append(r.Rows, row)
}

// Flush ends the open result, which may have no rows.
func (o *Output) Flush(preview bool) {
	if n := len(o.Results); n == 0 || o.Results[n-1].Flushed {
		o.Results = append(o.Results, Result{})
	}
	r := &o.Results[len(o.Results)-1]
	r.Flushed, r.Preview = true, preview
}

// Lose counts lost events.
func (o *Output) Lose(cause string, n uint64) {
	if o.Lost == nil {
		o.Lost = map[string]uint64{}
	}
	o.Lost[cause] += n
}

// StreamOf returns the name by which a leaf refers to one of Input.Relations.
func StreamOf(a *plan.Acquire) string {
	if len(a.Args) > 0 {
		return a.Args[0].V.S
	}
	return a.Stream
}

// Columns returns the positions in the relation of the columns that a leaf acquires: leaves
// are pruned, relations are not.
func Columns(a *plan.Acquire, relation types.Schema) []int {
	at := make([]int, len(a.Out.Fields))
	for i, f := range a.Out.Fields {
		at[i] = relation.Index(f.Name)
	}
	return at
}
