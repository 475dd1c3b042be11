package planner

import (
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

// recallInterval is the interval of samples that are kept for a RECALL without one.
const recallInterval = 50 * time.Millisecond

// recall plans RECALL: the query whose rows are kept until the trigger is activated.
func (r *resolver) recall(out *Action, a *parser.ActRecall) error {
	out.Kind, out.Stream = ActRecall, r.streamName(a.Stream)
	src := &parser.Source{Span: a.Stream.Span, Kind: parser.SourceStream, Name: a.Stream}
	if a.Every != nil {
		src.Kind, src.Args = parser.SourceSample, []*parser.Literal{a.Every}
	}
	in, err := r.source(src, nil, definition, 0)
	switch {
	case err != nil:
		return err
	case in.bare != nil:
		src.Kind, src.Args = parser.SourceSample, []*parser.Literal{{Span: a.Stream.Span, Kind: parser.LitDuration, Text: "50ms", Int: int64(recallInterval)}}
	case a.Every == nil && out.Stream != catalog.FunctionCall:
		return r.hintf(a.Stream.Pos(), "RECALL function_call, which has the entries and returns of functions, or RECALL SAMPLE(stream, 20ms)", "%s cannot be recalled", a.Stream.Name)
	}
	if a.Last.Int <= 0 {
		return r.errorf(a.Last.Pos(), "LAST needs a duration above zero")
	}
	out.For = time.Duration(a.Last.Int)
	if !out.Records() {
		return r.acquisition(out, src, a.Where, a.Overhead, nil)
	}
	// Within an overhead, functions that cost too much are left out, and the summary names them.
	may := r.maySample
	r.maySample = true
	defer func() { r.overhead, r.samplesRows, r.maySample = nil, false, may }()
	return r.acquisition(out, src, a.Where, a.Overhead, nil)
}

// checkRecall refuses conditions that the kernel cannot evaluate, if an action recalls calls
// that are recorded there. What only the sources know is refused later.
func (r *resolver) checkRecall(t *Trigger, c *parser.CreateTrigger, undone bool) error {
	recalls := 0
	for i := range t.Actions {
		if !t.Actions[i].Records() {
			continue
		}
		at := c.Actions[i].(*parser.ActRecall).Stream
		if recalls++; recalls > 1 {
			return r.hintf(at.Pos(), "RECALL function_call WHERE function_name IN (...) LAST 1s", "a trigger recalls one set of functions")
		}
		if undone {
			return r.hintf(at.Pos(), "another trigger, or CREATE ONCE TRIGGER", "a trigger that recalls calls cannot have SAMPLE or MONITOR, nor alerts that are resolved: these need the tuples that fail the condition")
		}
		root := t.When.Root
		if p, ok := root.(*plan.Project); ok {
			root = p.Input
		}
		if in, ok := root.(*plan.Acquire); ok && in.Stream != catalog.FunctionCall {
			if s := catalog.Find(in.Stream); s != nil && s.Functions {
				continue
			}
		}
		return r.hintf(c.From.Pos(), "CREATE TRIGGER name ON function_duration WHEN duration > 50ms BEGIN ... END",
			"RECALL %s needs a condition that the kernel evaluates, on one of function_start, function_end, function_duration, allocation and deallocation", at.Name)
	}
	return nil
}
