package planner

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// PlanExport plans CREATE EXPORT. Errors are *parser.Error.
func PlanExport(c *parser.CreateExport, src string, env *Env) (*Export, error) {
	return resolving(env, src, func(r *resolver) (*Export, error) { return r.export(c) })
}

func (r *resolver) export(c *parser.CreateExport) (*Export, error) {
	r.finals, r.fresh = true, true
	e := &Export{Name: c.Name.Name, Key: r.env.Scope.Resolve(c.Name.Name), Stack: -1}
	e.Options = ExportOptions{Interval: time.Second, Series: 10_000, Memory: 64 << 20, Queue: 16_384, Timeout: 10 * time.Second, Hold: 10 * time.Second}
	if err := r.exportTarget(e, c); err != nil {
		return nil, err
	}
	trace, err := r.exportOptions(e, c)
	if err != nil {
		return nil, err
	}
	q := *c.Query
	if e.Options.Exact {
		exact := *r.env
		exact.Overhead = 0
		r.env = &exact
	}
	switch {
	case e.Options.Exact && q.Overhead != nil:
		return nil, r.errorf(q.Overhead.Pos(), "WITHIN OVERHEAD gives estimates, and the option exact excludes them")
	case q.For != nil:
		return nil, r.errorf(q.For.Pos(), "an export has no end: it runs until DROP EXPORT")
	case q.Emit != nil && q.Emit.Mode != "EVERY":
		return nil, r.hintf(q.Emit.Pos(), "EMIT EVERY 5s", "an export emits at intervals")
	case q.Emit != nil:
		e.Options.Interval = time.Duration(q.Emit.Every.Int)
	}
	if len(q.Selects) == 1 && isAggregated(&q) {
		err = r.exportGroups(e, &q, trace)
	} else {
		err = r.exportRows(e, &q, trace)
	}
	if err != nil {
		return nil, err
	}
	e.Notices = e.Query.Notices
	return e, r.exportNames(e, c)
}

func (r *resolver) exportTarget(e *Export, c *parser.CreateExport) error {
	if err := r.newName("an export", c.Name); err != nil {
		return err
	}
	if c.To == nil {
		return nil
	}
	e.To, e.Start, e.Stop = c.To.Str, c.To.Start, c.To.Stop
	e.Options.Interval = 10 * time.Second
	u, err := url.Parse(e.To)
	switch {
	case err != nil || u.Host == "" || ExportSchemes[u.Scheme] == 0:
		return r.hintf(c.To.Pos(), "TO 'otlp://host:4317' (gRPC; otlps:// with TLS), 'otlp+http://host:4318', 'prometheus+http://host:9090', 'pyroscope+http://host:4040' or 'parca://host:7070'", "%s is not a URL to which an export can send", c.To.Text)
	case !strings.Contains(u.Scheme, "+") && strings.Trim(u.Path, "/") != "":
		return r.errorf(c.To.Pos(), "a URL of gRPC has no path")
	}
	return nil
}

// exportOption is an option of an export. Its value lies between low and high.
type exportOption struct {
	typ       types.Type
	low, high int64
	set       func(*ExportOptions, types.Value)
	sends     bool // only of exports that send
}

var exportOptions = map[string]exportOption{
	"exact":   {types.Boolean, 0, 1, func(o *ExportOptions, v types.Value) { o.Exact = v.I != 0 }, false},
	"series":  {types.Bigint, 1, 1_000_000, func(o *ExportOptions, v types.Value) { o.Series = int(v.I) }, false},
	"memory":  {types.Bigint, 1 << 20, 64 << 30, func(o *ExportOptions, v types.Value) { o.Memory = v.I }, false},
	"queue":   {types.Bigint, 1, 1_000_000, func(o *ExportOptions, v types.Value) { o.Queue = int(v.I) }, true},
	"timeout": {types.Duration, 1e6, 600e9, func(o *ExportOptions, v types.Value) { o.Timeout = time.Duration(v.I) }, true},
	"hold":    {types.Duration, 1e6, 3600e9, func(o *ExportOptions, v types.Value) { o.Hold = time.Duration(v.I) }, true},
	"headers": {types.Varchar, 0, 0, func(o *ExportOptions, v types.Value) { o.Headers = v.S }, true},
}

// traceOption is the option whose value is of each row.
const traceOption = "trace_id"

// exportOptions reads the options, and returns the expression of trace_id.
func (r *resolver) exportOptions(e *Export, c *parser.CreateExport) (trace parser.Expr, err error) {
	seen := map[string]bool{}
	for _, opt := range c.Options {
		name := strings.ToLower(opt.Name.Name)
		if seen[name] {
			return nil, r.errorf(opt.Name.Pos(), "%s is given twice", name)
		}
		seen[name] = true
		if name == traceOption && e.To != "" {
			trace = opt.X
			continue
		}
		o, ok := exportOptions[name]
		if !ok || o.sends && e.To == "" {
			return nil, r.hintf(opt.Name.Pos(), "options are "+strings.Join(optionNames(e.To != ""), ", "), "this export has no option %s", opt.Name.Name)
		}
		k, err := (&exprCtx{r: r, clause: "WITH"}).constant(opt.X, "WITH")
		if err != nil {
			return nil, err
		}
		low, high := types.Value{Type: o.typ, I: o.low}, types.Value{Type: o.typ, I: o.high}
		switch {
		case o.typ == types.Varchar && k.V.Type == o.typ && !k.V.IsNull && strings.Contains(k.V.S, "="):
		case o.typ == types.Varchar:
			return nil, r.hintf(opt.X.Pos(), "'api-key=secret,x=y'", "%s cannot be %s", name, opt.X)
		case o.typ == types.Boolean && k.V.Type != o.typ:
			return nil, r.hintf(opt.X.Pos(), name+" => TRUE", "%s cannot be %s", name, opt.X)
		case k.V.Type != o.typ || k.V.IsNull || k.V.I < o.low || k.V.I > o.high:
			return nil, r.errorf(opt.X.Pos(), "%s lies between %s and %s", name, plan.FormatValue(low), plan.FormatValue(high))
		}
		o.set(&e.Options, k.V)
	}
	return trace, nil
}

func optionNames(sends bool) (names []string) {
	for name, o := range exportOptions {
		if sends || !o.sends {
			names = append(names, name)
		}
	}
	if sends {
		names = append(names, traceOption)
	}
	slices.Sort(names)
	return names
}

func isAggregated(q *parser.Query) bool {
	s := q.Selects[0]
	return len(s.GroupBy) > 0 || slices.ContainsFunc(s.Items, func(i *parser.SelectItem) bool { return i.X != nil && hasAggregate(i.X) })
}

// exportGroups plans an aggregate: its keys become labels, and its aggregates metrics.
func (r *resolver) exportGroups(e *Export, q *parser.Query, trace parser.Expr) error {
	if trace != nil {
		return r.errorf(trace.Pos(), "trace_id is for spans, and an aggregate has none")
	}
	s := *q.Selects[0]
	s.Items = slices.Clone(s.Items)
	q.Selects = []*parser.Select{&s}
	for _, g := range s.GroupBy {
		found := false
		for i, it := range s.Items {
			found = found || groups(g, i, it)
		}
		if !found {
			s.Items = append(s.Items, &parser.SelectItem{Span: g.Pos(), X: g})
		}
	}
	visible := len(s.Items)
	sums := map[int]int{} // by column of a histogram
	for i, it := range s.Items {
		if it.Star {
			return r.hintf(it.Pos(), "SELECT function_name, COUNT(*) FROM ... GROUP BY function_name", "an export names the columns that it groups by and aggregates")
		}
		if call := distribution(it.X); call != nil {
			sketch, sum := *call, *call
			if len(call.Args) == 1 {
				sketch.Name = &parser.Ident{Span: call.Name.Span, Name: "sketch"}
				s.Items[i] = &parser.SelectItem{Span: it.Span, X: &sketch, Alias: it.Alias}
			}
			sum.Name, sum.Args = &parser.Ident{Span: call.Name.Span, Name: "sum"}, call.Args[:min(1, len(call.Args))]
			sums[i] = len(s.Items)
			s.Items = append(s.Items, &parser.SelectItem{Span: it.Span, X: &sum})
		}
	}
	root, windowed, err := r.standing(e, q)
	if err != nil {
		return err
	}
	switch {
	case !withinBudget(root.node):
	case e.storesProfiles():
		return r.hintf(q.Pos(), r.offBudget(), "a profile has sums that are exact")
	case len(sums) > 0:
		return r.hintf(q.Pos(), r.offBudget(), "the counts of an exported histogram never fall, and estimates may")
	}
	for i, f := range root.fields()[:visible] {
		it := s.Items[i]
		if hasAggregate(it.X) {
			m, err := r.metric(e, it, f, root.fields()[sums[i]].Type, windowed)
			if err != nil {
				return err
			}
			if call, fn := aggregateCall(it.X); e.storesProfiles() {
				if fn != "count" && fn != "sum" || call.Distinct || !m.Type.Numeric() {
					return r.hintf(it.Pos(), "COUNT and SUM", "a profile has numbers that add up, and %s does not", it.X)
				}
				m.Kind = Counter
			}
			m.Column, m.Sum = i, sums[i]
			e.Metrics = append(e.Metrics, estimates(m, root.fields(), f.Name)...)
			continue
		}
		if f.Name == "window_start" || f.Name == "window_end" {
			continue
		}
		if !slices.ContainsFunc(s.GroupBy, func(g parser.Expr) bool { return groups(g, i, it) }) {
			return r.hintf(it.Pos(), "add it to GROUP BY, or aggregate it: LAST("+it.X.String()+")", "%s is neither grouped nor aggregated", it.X)
		}
		e.Labels = append(e.Labels, Label{f.Name, i})
	}
	if e.storesProfiles() {
		e.Stack = slices.IndexFunc(e.Labels, func(l Label) bool { return root.fields()[l.Column].Type == types.List })
		if e.Stack < 0 || windowed || len(e.Metrics) == 0 {
			return r.noProfile(q)
		}
	}
	e.Query, err = r.finish(root.node, nil)
	return err
}

// noProfile is the error of a query that is no profile.
func (r *resolver) noProfile(q *parser.Query) error {
	return r.hintf(q.Pos(), "SELECT stack, COUNT(*) FROM SAMPLE(stack_sample, 10ms) GROUP BY stack", "a profile counts by stack, without a window")
}

// standing resolves a query that emits at intervals, unless windows determine when.
func (r *resolver) standing(e *Export, q *parser.Query) (root *scope, windowed bool, err error) {
	notices := len(r.notices)
	if root, err = r.query(q, nil, top); err != nil {
		return nil, false, err
	}
	for n := root.node; len(n.Inputs()) == 1; n = n.Inputs()[0] {
		if a, ok := n.(*plan.Aggregate); ok {
			windowed = a.Windowed
			break
		}
	}
	if windowed || q.Emit != nil {
		return root, windowed, nil
	}
	r.notices = r.notices[:notices]
	q.Emit = &parser.Emit{Span: q.Span, Mode: "EVERY", Every: &parser.Literal{Span: q.Span, Kind: parser.LitDuration, Int: int64(e.Options.Interval)}}
	root, err = r.query(q, nil, top)
	return root, false, err
}

// groups reports whether an expression of GROUP BY is the i-th item.
func groups(g parser.Expr, i int, it *parser.SelectItem) bool {
	if lit, ok := g.(*parser.Literal); ok && lit.Kind == parser.LitInt {
		return lit.Int == int64(i)+1
	}
	if it.X == nil {
		return false
	}
	text := g.String()
	if ref, ok := it.X.(*parser.ColumnRef); ok && text == ref.Parts[len(ref.Parts)-1].Name {
		return true
	}
	return text == it.X.String() || it.Alias != nil && text == it.Alias.String()
}

// exportRows plans rows that are not aggregated: calls become spans, and samples metrics.
func (r *resolver) exportRows(e *Export, q *parser.Query, trace parser.Expr) error {
	if q.Emit != nil {
		return r.errorf(q.Emit.Pos(), "EMIT needs an aggregate")
	}
	notices := len(r.notices)
	if e.storesProfiles() {
		return r.noProfile(q)
	}
	root, err := r.query(q, nil, top)
	if err != nil {
		return err
	}
	calls := callsIn(root.node)
	switch {
	case calls == "":
		if trace != nil {
			return r.errorf(trace.Pos(), "trace_id is for spans, which are calls of functions")
		}
		r.samples(e, root)
	case e.To == "" || e.writesRemotely():
		return r.hintf(q.Pos(), "SELECT function_name, COUNT(*) FROM ... GROUP BY function_name; TO 'otlp://host:4317' exports calls as spans", "single calls are not metrics")
	case len(q.Selects) != 1 || calls != catalog.FunctionDuration && calls != catalog.FunctionCall:
		return r.hintf(q.Pos(), "SELECT * FROM function_duration", "spans are the rows of function_duration or function_call")
	default:
		// The columns that a span needs are added behind those that the user selects.
		s := *q.Selects[0]
		q.Selects = []*parser.Select{&s}
		if root, err = r.spans(e, q, root, calls, trace, notices); err != nil {
			return err
		}
	}
	if len(e.Metrics) == 0 && e.Spans == nil {
		return r.hintf(q.Pos(), "select a number", "these rows have nothing that can be a metric")
	}
	e.Query, err = r.finish(root.node, nil)
	return err
}

// callsIn returns the stream of calls of functions that a plan reads; "" if there is none.
func callsIn(root plan.Node) (stream string) {
	for _, leaf := range plan.Leaves(root) {
		if s := catalog.Find(leaf.Stream); s != nil && s.Functions {
			stream = leaf.Stream
		}
	}
	return stream
}

// samples makes texts and numbers that identify something labels, and other numbers gauges.
func (r *resolver) samples(e *Export, root *scope) {
	for i, f := range root.fields()[:root.visible] {
		switch {
		case f.Type == types.Varchar || f.Type == types.Boolean || f.Type == types.Bigint && identities[f.Name]:
			e.Labels = append(e.Labels, Label{f.Name, i})
		case f.Type.Numeric():
			u := unitOf(f.Type, f.Name)
			e.Metrics = append(e.Metrics, Metric{Name: exportName(e.Name, u.trim(f.Name)), Unit: u, Column: i, Help: f.Name, Type: f.Type})
		}
	}
}

// spans adds the columns that a span needs to a query of calls.
func (r *resolver) spans(e *Export, q *parser.Query, root *scope, calls string, trace parser.Expr, notices int) (*scope, error) {
	s := q.Selects[0]
	s.Items = slices.Clone(s.Items)
	if len(s.Items) == 0 {
		s.Items = []*parser.SelectItem{{Span: s.Span, Star: true}}
	}
	visible := root.visible
	have := map[string]int{}
	for i, f := range root.fields()[:visible] {
		have[f.Name] = i
	}
	width := visible
	column := func(name string) int {
		i, ok := have[name]
		if !ok {
			i, have[name] = width, width
			width++
			s.Items = append(s.Items, &parser.SelectItem{Span: s.Span, X: &parser.ColumnRef{Span: s.Span, Parts: []*parser.Ident{{Span: s.Span, Name: name}}}})
		}
		return i
	}
	sp := &Spans{Event: -1, Trace: -1}
	sp.Name, sp.End, sp.PID, sp.TID, sp.Depth, sp.Goroutine = column("function_name"), column("timestamp"), column("pid"), column("tid"), column("depth"), column("goroutine")
	if sp.Start = sp.End; calls == catalog.FunctionCall {
		sp.Events, sp.Event = true, column("event")
	} else {
		sp.Start = column("start_time")
	}
	if i, ok := have["trace_id"]; ok {
		sp.Trace = i
	}
	if trace != nil {
		sp.Trace = width
		s.Items = append(s.Items, &parser.SelectItem{Span: trace.Pos(), X: trace})
	}
	for i, f := range root.fields()[:visible] {
		if !slices.Contains([]int{sp.Name, sp.Event, sp.Start, sp.End, sp.Depth, sp.Trace}, i) && f.Name != "duration" && f.Type.Physical() != types.PhysAny {
			e.Labels = append(e.Labels, Label{f.Name, i})
		}
	}
	e.Spans, r.asks = sp, []string{"goroutine"}
	r.notices = r.notices[:notices]
	return r.query(q, nil, top)
}

// taken are the beginnings of metric names that the daemon and Prometheus itself use.
var taken = []string{"endoscope_", "go_", "process_", "promhttp_", "scrape_"}

// exportNames makes names of labels valid, and refuses names that mean two things.
func (r *resolver) exportNames(e *Export, c *parser.CreateExport) error {
	if e.To == "" || e.writesRemotely() {
		for _, t := range taken {
			if strings.HasPrefix(metricName(e.Name)+"_", t) {
				return r.hintf(c.Name.Pos(), "choose another name", "metrics that begin with %s are not from exports", t)
			}
		}
	}
	seen := map[string]bool{}
	for _, m := range e.Metrics {
		if name := m.FullName(); seen[name] {
			return r.hintf(c.Query.Pos(), "name them: COUNT(*) AS calls", "two columns would be the metric %s", name)
		}
		seen[m.FullName()] = true
	}
	seen = map[string]bool{}
	for i := range e.Labels {
		l := &e.Labels[i]
		if e.Spans == nil {
			l.Name = metricName(l.Name)
		}
		if l.Name == "" || l.Name == "export" || l.Name == "owner" || l.Name == "le" {
			return r.hintf(c.Query.Pos(), "function_name AS function", "a column cannot be the label %q: name it", l.Name)
		}
		if seen[l.Name] {
			return r.hintf(c.Query.Pos(), "name them: function_name AS function", "two columns would be the label %s", l.Name)
		}
		seen[l.Name] = true
	}
	return nil
}
