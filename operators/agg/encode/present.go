package encode

import (
	"encoding/json"
	"fmt"
	"strings"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/consistency"
	"endoscope/operators/encoders"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// presents is an aggregate of events of entities: for each group what there is, as
// package consistency says it.
type presents struct {
	create func() consistency.Present
	// arguments are what the arguments behind the event are of it.
	arguments []func(e *consistency.Event, s string)
	// otherwise is the category of events whose category is not given.
	otherwise func(consistency.Kind) consistency.Category
	groups    []consistency.Present
}

func NewPresents(f *plan.Agg) (fold.Accumulator, error) {
	entity := func(e *consistency.Event, s string) { e.Entity = s }
	parent := func(e *consistency.Event, s string) { e.Parent = s }
	other := func(e *consistency.Event, s string) { e.Other = s }
	thread := func(e *consistency.Event, s string) { e.Thread = s }
	name := func(e *consistency.Event, s string) { e.Name = s }
	class := func(e *consistency.Event, s string) { e.TypeName = s }
	category := func(e *consistency.Event, s string) { e.Category, _ = consistency.ParseCategory(s) }
	a := &presents{otherwise: func(consistency.Kind) consistency.Category { return consistency.None }}
	switch f.Fn {
	case "live_objects":
		a.create = func() consistency.Present { return consistency.NewObjects() }
		a.arguments = []func(*consistency.Event, string){entity, class, category}
		a.otherwise = objectIfEntity
	case "invocation_tree":
		a.create = func() consistency.Present { return consistency.NewCalls() }
		a.arguments = []func(*consistency.Event, string){entity, parent, name}
		a.otherwise = func(consistency.Kind) consistency.Category { return consistency.Invocation }
	case "wait_graph":
		a.create = func() consistency.Present { return consistency.NewWaits() }
		a.arguments = []func(*consistency.Event, string){entity, thread, name, category}
	case "object_graph":
		a.create = func() consistency.Present { return consistency.NewReferences() }
		a.arguments = []func(*consistency.Event, string){entity, other, class, category}
		a.otherwise = objectIfEntity
	}
	if len(f.Args) < 3 {
		return nil, plan.Errorf(-1, -1, "%s needs events and what they are about", f).WithHint("%s", plan.FindAgg(f.Fn).Doc)
	}
	if f.Fn != "invocation_tree" && len(f.Args) > len(a.arguments) { // the last argument is the category
		a.otherwise = func(consistency.Kind) consistency.Category { return consistency.None }
	}
	return a, nil
}

// objectIfEntity takes what is not an activity for an object's.
func objectIfEntity(k consistency.Kind) consistency.Category {
	if k < consistency.Reference {
		return consistency.Object
	}
	return consistency.None
}

func (a *presents) Grow(n int) { a.groups = rowstore.Extended(a.groups, n) }

func (a *presents) Reset() {
	clear(a.groups)
	a.groups = a.groups[:0]
}

// Bytes implements valueHolder.
func (a *presents) Bytes() (n int64) {
	for _, g := range a.groups {
		if g != nil {
			n += g.Size()
		}
	}
	return n
}

func (a *presents) Update(in *fold.Input) {
	for _, r := range in.Rows {
		kind, ok := consistency.ParseKind(in.Arg.Values[in.Arg.Code[r]])
		if !ok {
			continue
		}
		g := a.groups[in.Groups[r]]
		if g == nil {
			g = a.create()
			a.groups[in.Groups[r]] = g
		}
		e := consistency.Event{Kind: kind, Category: a.otherwise(kind)}
		if in.Times != nil {
			e.Time = in.Times[r]
		}
		for i, c := range in.More {
			if !c.Nulls.Get(int(r)) {
				a.arguments[i](&e, c.Values[c.Code[r]])
			}
		}
		g.Apply(e)
	}
}

func (a *presents) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		p := a.groups[g]
		if p == nil {
			out.Nulls.Set(i)
			out.Any = append(out.Any, nil)
			continue
		}
		lines := p.Lines()
		nodes, arrows := p.Picture()
		out.Any = append(out.Any, present{lines, p.String(), nodes, arrows})
	}
	return nil
}

// present is what there was at a time, an ENCODING.
type present struct {
	lines  []consistency.Line
	text   string
	nodes  []consistency.Node
	arrows []consistency.Arrow
}

func (p present) String() string { return p.text }

// Dot implements encoders.Graph.
func (p present) Dot() string {
	var b strings.Builder
	b.WriteString("digraph {\n")
	for _, n := range p.nodes {
		fmt.Fprintf(&b, "  %q [label=%q];\n", n.ID, n.Label)
	}
	for _, a := range p.arrows {
		fmt.Fprintf(&b, "  %q -> %q", a.From, a.To)
		switch {
		case a.Alarm:
			fmt.Fprintf(&b, " [label=%q color=red]", a.Label)
		case a.Label != "":
			fmt.Fprintf(&b, " [label=%q]", a.Label)
		}
		b.WriteString(";\n")
	}
	b.WriteString("}")
	return b.String()
}

// Mermaid implements encoders.Graph.
func (p present) Mermaid() string {
	var b strings.Builder
	b.WriteString("graph LR")
	ids := map[string]string{}
	quote := strings.NewReplacer("\"", "#quot;", "<", "#lt;", ">", "#gt;")
	id := func(of, label string) string {
		if ids[of] == "" {
			ids[of] = fmt.Sprint("n", len(ids)+1)
			fmt.Fprintf(&b, "\n  %s[\"%s\"]", ids[of], quote.Replace(label))
		}
		return ids[of]
	}
	for _, n := range p.nodes {
		id(n.ID, n.Label)
	}
	for _, a := range p.arrows {
		from, to := id(a.From, a.From), id(a.To, a.To)
		arrow := "-->"
		if a.Alarm {
			arrow = "==>"
		}
		if a.Label != "" {
			arrow += "|\"" + quote.Replace(a.Label) + "\"|"
		}
		fmt.Fprintf(&b, "\n  %s %s %s", from, arrow, to)
	}
	return b.String()
}

// MarshalJSON gives the lines.
func (p present) MarshalJSON() ([]byte, error) {
	type line struct {
		Depth int    `json:"depth,omitempty"`
		Text  string `json:"text"`
	}
	out := struct {
		Encoding string `json:"encoding"`
		Lines    []line `json:"lines"`
	}{"present", []line{}}
	for _, l := range p.lines {
		out.Lines = append(out.Lines, line(l))
	}
	return json.Marshal(out)
}

// Of implements encoders.Encoding: it is of events, all of which it takes in.
func (p present) Of() encoders.Source { return encoders.Source{Sequences: 1} }

var _ encoders.Graph = present{}
