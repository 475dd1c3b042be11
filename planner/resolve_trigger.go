package planner

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// selectors are the columns whose conditions select a trigger's tuples; all other
// conditions decide whether a selected tuple activates it.
var selectors = []string{"pid", "process", "exe", "container", "cgroup", "pod", "namespace", "module", "class", "function_name"}

// PlanTrigger plans CREATE TRIGGER. Errors are *parser.Error.
func PlanTrigger(c *parser.CreateTrigger, src string, env *Env) (*Trigger, error) {
	return resolving(env, src, func(r *resolver) (*Trigger, error) {
		r.trigger, r.finals, r.fresh = env.Scope.Resolve(c.Name.Name), true, true
		return r.planTrigger(c)
	})
}

func (r *resolver) planTrigger(c *parser.CreateTrigger) (*Trigger, error) {
	if err := r.triggerName(c); err != nil {
		return nil, err
	}
	t := &Trigger{Name: c.Name.Name, Key: r.trigger, Once: c.Once, Condition: -1}
	undone, shown := false, false
	for _, a := range c.Actions {
		act, err := r.action(a)
		if err != nil {
			return nil, err
		}
		undone = undone || !t.Once && (act.Acquires() || act.Kind == ActWebhook && r.env.Resolves)
		shown = shown || act.Kind == ActNotify || act.Kind == ActWebhook || act.Kind == ActStop
		t.Actions = append(t.Actions, *act)
	}
	if err := r.when(t, c, undone, shown); err != nil {
		return nil, err
	}
	t.Notices = r.notices
	if err := r.checkRecall(t, c, undone); err != nil {
		return nil, err
	}
	return t, r.feedback(t, c)
}

// triggerName rejects names that are in use.
func (r *resolver) triggerName(c *parser.CreateTrigger) error {
	name := c.Name.Name
	if err := r.newName("a trigger", c.Name); err != nil {
		return err
	}
	switch {
	case catalog.Find(name) != nil:
		return r.errorf(c.Name.Pos(), "%s is a built-in stream, and a trigger's name is also a stream", name)
	case r.env.Views.Get(r.trigger) != nil:
		return r.hintf(c.Name.Pos(), "DROP STREAM "+name+", or choose another name", "there is a stream %s already, and a trigger's name is also a stream", name)
	case !c.Replace && r.env.Triggers.Has(r.trigger):
		return r.hintf(c.Name.Pos(), "CREATE OR REPLACE TRIGGER, or DROP TRIGGER "+name, "there is a trigger %s already", name)
	}
	return nil
}

// when plans the tuples. If no action is undone by tuples that fail the condition, such
// tuples are not acquired; if no action shows a tuple, its columns are not.
func (r *resolver) when(t *Trigger, c *parser.CreateTrigger, undone, shown bool) error {
	in, err := r.from(c.From, nil, nested, 0)
	if err != nil {
		return err
	}
	ec := &exprCtx{r: r, in: in, clause: "WHEN"}
	var selecting, deciding []plan.Expr
	for _, e := range conjunctsOf(c.When) {
		if hasAggregate(e) {
			return r.hintf(e.Pos(), "aggregate in a sub-query: ON (SELECT COUNT(*) AS n FROM TUMBLE(...)) WHEN n > 100", "WHEN cannot aggregate")
		}
		x, err := ec.boolean(e)
		if err != nil {
			return err
		}
		if selects(x, in) {
			selecting = append(selecting, x)
		} else {
			deciding = append(deciding, x)
		}
	}
	node := in.node
	if in.windowed {
		node = hold(node)
	}
	if !undone {
		selecting, deciding = append(selecting, deciding...), nil
	}
	if len(selecting) > 0 {
		node = &plan.Filter{Input: node, Cond: allOf(selecting)}
	}
	root := r.tuple(t, in, node, shown)
	if undone {
		t.Condition = len(root.Exprs)
		root.Exprs = append(root.Exprs, allOf(deciding))
		root.Out.Fields = append(root.Out.Fields, types.Field{Name: "condition", Type: types.Boolean})
	}
	t.When, err = r.finish(root, nil)
	if err == nil {
		t.flow(t.When)
	}
	return err
}

// tuple projects to the columns that an action shows, or to the time only.
func (r *resolver) tuple(t *Trigger, in *scope, node plan.Node, shown bool) *plan.Project {
	sch := node.Schema()
	p := &plan.Project{Input: node, Out: types.Schema{Time: -1}}
	add := func(i int, name string) {
		f := sch.Fields[i]
		p.Exprs = append(p.Exprs, &plan.Col{Index: i, Name: f.Name, T: f.Type})
		p.Out.Fields = append(p.Out.Fields, types.Field{Name: name, Type: f.Type})
	}
	if shown {
		for i, f := range sch.Fields[:in.visible] {
			if isValue(f.Name) {
				continue
			}
			name := f.Name
			same := func(g types.Field) bool { return g.Name == f.Name && g.Qualifier != f.Qualifier }
			if f.Qualifier != "" && slices.ContainsFunc(sch.Fields[:in.visible], same) {
				name = f.Qualifier + "." + f.Name
			}
			add(i, name)
		}
		t.Tuple = slices.Clone(p.Out.Fields)
	}
	t.Time = -1
	if at := sch.Time; at >= 0 && !in.ends && sch.Fields[at].Type == types.Timestamp {
		t.Time = slices.IndexFunc(p.Exprs, func(e plan.Expr) bool { return e.(*plan.Col).Index == at })
		if t.Time < 0 {
			t.Time = len(p.Exprs)
			add(at, sch.Fields[at].Name)
		}
		p.Out.Time = t.Time
	}
	if len(p.Exprs) == 0 {
		// Rows without columns cannot be counted.
		p.Exprs = append(p.Exprs, &plan.Const{V: types.Bool(true)})
		p.Out.Fields = append(p.Out.Fields, types.Field{Name: "tuple", Type: types.Boolean})
	}
	return p
}

// conjunctsOf splits a condition at its ANDs, left to right.
func conjunctsOf(e parser.Expr) []parser.Expr {
	if b, ok := e.(*parser.Binary); ok && b.Op == "AND" {
		return append(conjunctsOf(b.X), conjunctsOf(b.Y)...)
	}
	return []parser.Expr{e}
}

// selects reports whether a condition refers to selectors only.
func selects(e plan.Expr, in *scope) bool {
	reads, other := false, false
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			reads = true
			other = other || !slices.Contains(selectors, in.fields()[c.Index].Name)
		}
	})
	return reads && !other
}

// allOf returns the conjunction of conditions; without any it is true.
func allOf(es []plan.Expr) plan.Expr {
	if len(es) == 0 {
		return &plan.Const{V: types.Bool(true)}
	}
	return plan.And(es...)
}

// action plans one action.
func (r *resolver) action(a parser.Action) (*Action, error) {
	out := &Action{Text: a.String()}
	var err error
	switch a := a.(type) {
	case *parser.ActSample:
		out.Kind, out.Stream = ActSample, r.streamName(a.Stream)
		src := &parser.Source{Span: a.Span, Kind: parser.SourceSample, Name: a.Stream, Args: []*parser.Literal{a.Every}}
		err = r.acquisition(out, src, nil, nil, a.For)
	case *parser.ActMonitor:
		out.Kind, out.Stream = ActMonitor, r.streamName(a.Stream)
		src := &parser.Source{Span: a.Stream.Span, Kind: parser.SourceStream, Name: a.Stream}
		var probe *scope
		if probe, err = r.source(src, nil, definition, 0); err == nil && probe.bare != nil {
			err = r.hintf(a.Stream.Pos(), "SAMPLE("+a.Stream.Name+", 100ms)", "%s has a value at every instant: it is sampled, not monitored", a.Stream.Name)
		}
		if err == nil {
			err = r.acquisition(out, src, a.Where, nil, a.For)
		}
	case *parser.ActRecall:
		err = r.recall(out, a)
	case *parser.ActStop:
		out.Kind, out.Stream = ActStop, r.streamName(a.Stream)
		_, err = r.source(&parser.Source{Span: a.Stream.Span, Kind: parser.SourceStream, Name: a.Stream}, nil, definition, 0)
	case *parser.ActNotify:
		out.Kind, out.Str = ActNotify, a.Text.Str
	case *parser.ActWebhook:
		out.Kind, out.Str, out.Start, out.Stop = ActWebhook, a.URL.Str, a.URL.Start, a.URL.Stop
		if u, e := url.Parse(a.URL.Str); e != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			err = r.hintf(a.URL.Pos(), "WEBHOOK 'http://host:port/path'", "%s is not a URL that accepts a POST", a.URL.Text)
		}
	case *parser.Query:
		out.Kind = ActQuery
		var root *scope
		if root, err = r.query(a, nil, top); err == nil {
			out.Query, err = r.finish(root.node, a.For)
		}
	case *parser.Insert:
		out.Kind = ActQuery
		out.Query, err = r.insert(a, true) // each activation appends to the file
	default:
		err = r.errorf(a.Pos(), "this action is not supported yet")
	}
	return out, err
}

// acquisition plans SAMPLE, MONITOR and RECALL as the equivalent query. overhead and dur may be nil.
func (r *resolver) acquisition(out *Action, src *parser.Source, where parser.Expr, overhead, dur *parser.Literal) error {
	sel := &parser.Select{Span: src.Span, Items: []*parser.SelectItem{{Span: src.Span, Star: true}},
		From: &parser.From{Span: src.Span, First: src}, Where: where}
	root, err := r.query(&parser.Query{Span: src.Span, Selects: []*parser.Select{sel}, Overhead: overhead}, nil, top)
	if err != nil {
		return err
	}
	if dur != nil {
		if dur.Int <= 0 {
			return r.errorf(dur.Pos(), "FOR needs a duration above zero")
		}
		out.For = time.Duration(dur.Int)
	}
	out.Query, err = r.finish(root.node, nil)
	return err
}

// flow records what a plan reads and writes.
func (t *Trigger) flow(q *plan.Query) {
	for _, leaf := range plan.Leaves(q.Root) {
		switch leaf.Stream {
		case catalog.TriggerStream:
			t.Flow.Streams = append(t.Flow.Streams, leaf.Args[0].V.S)
		case "file":
			t.Flow.Files = append(t.Flow.Files, absolute(leaf.Args[0].V.S))
		}
	}
	if ins, ok := q.Root.(*plan.Insert); ok {
		t.Flow.Writes = append(t.Flow.Writes, absolute(ins.Path))
	}
}

// absolute returns a canonical path for a file that may have several names through links.
// The file need not exist.
func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs))
	}
	return abs
}

// feedback rejects a trigger whose own actions would activate it.
func (r *resolver) feedback(t *Trigger, c *parser.CreateTrigger) error {
	for _, a := range t.Actions {
		if a.Query != nil {
			t.flow(a.Query)
		}
	}
	if e := t.Feeds(r.env.Triggers, r.env.Scope); e != nil {
		return r.hintf(c.Name.Pos(), e.Hint, "%s", e.Msg)
	}
	return nil
}

// Feeds returns an error that describes how a trigger would feed itself, given the others, of
// which it names only those in scope; nil: it would not.
func (t *Trigger) Feeds(others *definitions.Triggers, scope definitions.Scope) *plan.Error {
	way := others.Feeds(t.Key, t.Flow)
	for i, key := range way {
		if way[i] = scope.Shown(key); !scope.Has(key) {
			way[i] = "a trigger of another user"
		}
	}
	switch {
	case way == nil:
		return nil
	case len(way) > 1:
		return plan.Errorf(-1, -1, "%s would feed itself through %s", t.Name, strings.Join(way[:len(way)-1], ", ")).WithHint("each reads the output of the one before")
	case slices.Contains(t.Flow.Streams, t.Key):
		return plan.Errorf(-1, -1, "%s would feed itself: it reads its own stream", t.Name)
	}
	return plan.Errorf(-1, -1, "%s would feed itself: it reads a file that it writes", t.Name)
}

// streamName returns the name by which plans know a stream: in lower case if it is built
// in, and otherwise qualified.
func (r *resolver) streamName(name *parser.Ident) string {
	own := r.scope().Resolve(name.Name)
	if r.env.Views.Get(own) == nil && own != r.trigger && !r.env.Triggers.Has(own) {
		return strings.ToLower(name.Name)
	}
	return own
}

// triggerStream resolves the stream of a trigger with this qualified name.
func (r *resolver) triggerStream(s *parser.Source, name *parser.Ident, own string, every time.Duration) (*scope, error) {
	if every > 0 {
		return nil, r.hintf(name.Pos(), "write "+name.Name+" without SAMPLE", "%s has tuples of its own and cannot be sampled", name.Name)
	}
	a := &plan.Acquire{Stream: catalog.TriggerStream, Out: types.Schema{Time: 0},
		Args: []plan.Const{{V: types.Str(own), Start: name.Start, Stop: name.Stop}}}
	for _, c := range catalog.Trigger.Columns {
		a.Out.Fields = append(a.Out.Fields, types.Field{Name: c.Name, Qualifier: name.Name, Type: c.Type})
	}
	out := r.leaf(a, s, false)
	out.names = []string{name.Name}
	return out, nil
}

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
