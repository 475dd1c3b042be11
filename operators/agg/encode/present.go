package encode

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/consistency"
	"endoscope/operators/encoders"
	"endoscope/operators/encoders/render"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// presents is an aggregate of events of entities: for each group the entities that
// are present, as defined by package consistency.
type presents struct {
	create func() consistency.Present
	// arguments set the fields of an event from the arguments after the event.
	arguments []func(e *consistency.Event, s string)
	// otherwise returns the category of events without a category.
	otherwise func(consistency.Kind) consistency.Category
	groups    []consistency.Present
	f         *plan.Agg
	reader    *states.RowsReader // of states; nil until there is one
	origin    string             // what identities begin with, of another origin
}

func NewPresents(f *plan.Agg) (fold.Accumulator, error) {
	a := &presents{f: f, otherwise: func(consistency.Kind) consistency.Category { return consistency.None }}
	entity := func(e *consistency.Event, s string) { e.Entity = a.identity(s) }
	parent := func(e *consistency.Event, s string) { e.Parent = a.identity(s) }
	other := func(e *consistency.Event, s string) { e.Other = a.identity(s) }
	thread := func(e *consistency.Event, s string) { e.Thread = a.identity(s) }
	name := func(e *consistency.Event, s string) { e.Name = s }
	class := func(e *consistency.Event, s string) { e.TypeName = s }
	category := func(e *consistency.Event, s string) { e.Category, _ = consistency.ParseCategory(s) }
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

// objectIfEntity returns the object category for all events but those of
// activities.
func objectIfEntity(k consistency.Kind) consistency.Category {
	if k < consistency.Reference {
		return consistency.Object
	}
	return consistency.None
}

// identity returns an identity, made unique to this origin, at which it may mean
// something else.
func (a *presents) identity(s string) string {
	if a.origin == "" || s == "" || s == consistency.Unknown {
		return s
	}
	return a.origin + s
}

// Merge folds the events that are the states.
func (a *presents) Merge(in *fold.Input, state []batch.Column) error {
	if a.reader == nil {
		a.reader = states.NewRowsReader(a.f)
	}
	defer func() { a.origin = "" }()
	return a.reader.Read(in, state, func(in *fold.Input, origin uint64) {
		if a.origin = ""; origin != 0 {
			a.origin = strconv.FormatUint(origin, 10) + ":"
		}
		a.Update(in)
	})
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
		out.Any = append(out.Any, present{strings.ReplaceAll(a.f.Fn, "_", " "), lines, p.String(), nodes, arrows})
	}
	return nil
}

// present is the set of entities present at a time, an ENCODING.
type present struct {
	title  string // of pictures
	lines  []consistency.Line
	text   string
	nodes  []consistency.Node
	arrows []consistency.Arrow
}

func (p present) String() string { return p.text }

// diagram draws the entities and how they are related.
func (p present) diagram() *render.Diagram {
	d := &render.Diagram{Title: p.title, About: []string{fmt.Sprintf("%d present", len(p.nodes))}, Legend: []string{"box: what is present; arrow: how it is related"}}
	at := map[string]int{}
	node := func(id, label string) int {
		n, ok := at[id]
		if !ok {
			n = len(d.Nodes)
			at[id] = n
			d.Nodes = append(d.Nodes, render.DiagramNode{Label: strings.Split(label, "\n")})
		}
		return n
	}
	for _, n := range p.nodes {
		node(n.ID, n.Label)
	}
	for _, a := range p.arrows {
		e := render.DiagramEdge{From: node(a.From, a.From), To: node(a.To, a.To), Alarm: a.Alarm}
		if a.Label != "" {
			e.Label = strings.Split(a.Label, "\n")
		}
		if a.Alarm && len(d.Legend) == 1 {
			d.Legend = append(d.Legend, "red: an error state, such as a deadlock")
		}
		d.Edges = append(d.Edges, e)
	}
	return d
}

// Dot and Mermaid implement encoders.Graph, SVG encoders.Drawing.
func (p present) Dot() string     { return p.diagram().Dot() }
func (p present) Mermaid() string { return p.diagram().Mermaid() }
func (p present) SVG() string     { return p.diagram().Svg() }

// MarshalJSON returns the lines.
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

// Of implements encoders.Encoding: the source is events, all of which are
// included.
func (p present) Of() encoders.Source { return encoders.Source{Sequences: 1} }

var (
	_ encoders.Graph   = present{}
	_ encoders.Drawing = present{}
)
