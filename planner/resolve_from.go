package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// ctes are the visible WITH definitions, innermost last.
type ctes []*parser.CTE

// source resolves one source. every is the interval of a SAMPLE around it.
func (r *resolver) source(s *parser.Source, with ctes, lv level, every time.Duration) (*scope, error) {
	if r.sources++; r.sources > maxSources {
		at := r.outer
		if at.src == "" {
			at = place{s.Pos(), r.src}
		}
		return nil, &parser.Error{Msg: fmt.Sprintf("this expands to more than %d sources", maxSources), Pos: at.pos, Src: at.src}
	}
	out, err := r.sourceKind(s, with, lv, every)
	if err == nil {
		err = r.countColumns(len(out.fields()), s.Pos())
	}
	if err != nil {
		return nil, err
	}
	if s.Alias != nil {
		r.qualify(out, s.Alias.Name)
	}
	return out, nil
}

func (r *resolver) sourceKind(s *parser.Source, with ctes, lv level, every time.Duration) (*scope, error) {
	switch s.Kind {
	case parser.SourceStream:
		return r.named(s, s.Name, with, lv, every)
	case parser.SourceSample:
		d := time.Duration(s.Args[0].Int)
		if d <= 0 {
			return nil, r.errorf(s.Args[0].Pos(), "SAMPLE needs an interval above zero")
		}
		if d < time.Millisecond {
			return nil, r.hintf(s.Args[0].Pos(), "1ms is the shortest", "cannot sample every %s", plan.FormatDuration(int64(d)))
		}
		return r.named(s, s.Name, with, lv, d)
	case parser.SourceTumble, parser.SourceHop, parser.SourceSession:
		return r.window(s, with, lv)
	case parser.SourceConsistent:
		return r.consistent(s, with, lv)
	case parser.SourceFile:
		return r.file(s)
	case parser.SourceSeries:
		if s.Args[0].Int < 0 {
			return nil, r.errorf(s.Args[0].Pos(), "series needs a number of rows that is not negative")
		}
		return r.leaf(&plan.Acquire{Stream: "series", Args: []plan.Const{{V: types.Int(s.Args[0].Int)}},
			Out: types.Schema{Fields: []types.Field{{Name: "n", Type: types.Bigint}}, Time: -1}}, s, true), nil
	case parser.SourceQuery:
		return r.subquery(s.Query, with, lv, every)
	}
	return nil, r.errorf(s.Pos(), "this source is not supported yet")
}

// leaf returns the scope of an acquisition.
func (r *resolver) leaf(a *plan.Acquire, s *parser.Source, finite bool) *scope {
	a.Start, a.Stop = s.Start, s.Stop
	a.ByThread = r.env.ByThread && a.Out.Index("thread_name") >= 0
	if len(r.views) > 0 {
		// The position would be in the view's text, not in the statement's.
		a.Start, a.Stop = 0, 0
	}
	a.Out = requalified(a.Out, a.Stream) // the columns of a file are not yet qualified by its name
	return &scope{node: a, visible: len(a.Out.Fields), names: []string{a.Stream}, finite: finite}
}

// qualify renames a source's columns to alias.column.
func (r *resolver) qualify(s *scope, alias string) {
	s.names = []string{alias}
	if a, ok := s.node.(*plan.Acquire); ok {
		c := *a
		c.Alias, c.Out = alias, requalified(a.Out, alias)
		s.node = &c
		return
	}
	// A projection of all columns carries the new names; the rewriter removes it.
	in := s.node.Schema()
	p := &plan.Project{Input: s.node, Out: requalified(in, alias)}
	for i, f := range in.Fields {
		p.Exprs = append(p.Exprs, &plan.Col{Index: i, Name: f.Name, T: f.Type})
	}
	s.node = p
}

func requalified(s types.Schema, alias string) types.Schema {
	out := types.Schema{Fields: slices.Clone(s.Fields), Time: s.Time}
	for i := range out.Fields {
		out.Fields[i].Qualifier = alias
	}
	return out
}

// named resolves a stream by name: WITH, then the user's streams, then the built-in ones.
func (r *resolver) named(s *parser.Source, name *parser.Ident, with ctes, lv level, every time.Duration) (*scope, error) {
	defer r.entering(name)()
	for i := len(with) - 1; i >= 0; i-- {
		if with[i].Name.Name == name.Name {
			out, err := r.subquery(with[i].Query, with[:i], lv, every)
			if err == nil {
				r.qualify(out, name.Name)
			}
			return out, err
		}
	}
	own := r.scope().Resolve(name.Name)
	if v := r.env.Views.Get(own); v != nil {
		return r.view(s, own, v, lv, every)
	}
	if own != "" && own == r.trigger || r.env.Triggers.Has(own) {
		return r.triggerStream(s, name, own, every)
	}
	if out, err := r.standingStream(s, name, own, every); out != nil || err != nil {
		return out, err
	}
	st := catalog.Find(strings.ToLower(name.Name))
	if st == nil {
		names := append(r.env.Triggers.Names(), r.env.Views.Names()...)
		if r.env.Results != nil {
			names = append(names, r.env.Results.Names()...)
		}
		names = r.scope().Visible(names)
		for _, st := range catalog.Streams {
			names = append(names, st.Name)
		}
		hint := DidYouMean(name.Name, names)
		if hint == "" {
			hint = "SHOW STREAMS lists them"
		}
		return nil, r.hintf(name.Pos(), hint, "there is no stream %s", name.Name)
	}
	if st.Later {
		return nil, r.errorf(name.Pos(), "%s is not supported yet", st.Name)
	}
	switch {
	case every > 0 && st.Kind == catalog.Enumerable && !st.Sampled && len(r.views) > 0:
		every = 0 // view rejects it, at the name in the statement
	case every > 0 && st.Kind == catalog.Enumerable && !st.Sampled:
		return nil, r.hintf(name.Pos(), "write "+st.Name+" without SAMPLE", "%s has tuples of its own and cannot be sampled", st.Name)
	case every == 0 && st.Kind == catalog.NonEnumerable && lv != definition:
		return nil, r.hintf(name.Pos(), r.sampled(name.Pos(), st.Name),
			"%s has a value at every instant and cannot be read tuple by tuple", st.Name)
	}
	a := &plan.Acquire{Stream: st.Name, Every: every, Out: types.Schema{Time: -1}, Budget: r.overhead}
	columns := st.Columns
	for _, c := range st.Asked {
		if r.namesColumn(c.Name) {
			columns = append(slices.Clip(columns), c)
		}
	}
	for i, c := range columns {
		a.Out.Fields = append(a.Out.Fields, types.Field{Name: c.Name, Qualifier: st.Name, Type: c.Type})
		if c.Name == "timestamp" {
			a.Out.Time = i
		}
	}
	inside, err := r.contextsOf(st)
	if err != nil {
		return nil, err
	}
	vs := append(r.values(st, s), inside...)
	if r.resultOf(st, a); len(vs) > 0 || a.Results != plan.RawResults {
		a.Out.Fields, a.Serial = append(a.Out.Fields, vs...), r.serial
		r.serial++
	}
	out := r.leaf(a, s, st.Kind == catalog.Snapshot && every == 0)
	out.visible -= len(inside)
	if st.Kind == catalog.NonEnumerable && every == 0 {
		out.bare = st
	}
	if st.Sampled && every == 0 {
		out.sampled = st
	}
	return out, nil
}

// entering records where the statement names the definition that is being inlined, until
// the returned function is called.
func (r *resolver) entering(name *parser.Ident) (leave func()) {
	if r.outer.src != "" {
		return func() {}
	}
	r.outer = place{name.Pos(), r.src}
	return func() { r.outer = place{} }
}

// namesColumn reports whether the statement names a column, or has an encoder that uses it by
// default.
func (r *resolver) namesColumn(column string) bool {
	return hasWord(r.src, column) || slices.Contains(r.asks, column) || column == "labels" && hasWord(r.src, "label") || r.env.choosesBy(column) || strings.HasSuffix(column, plan.LineageSuffix) && hasWord(r.src, plan.HierarchyEncoder)
}

// hasWord reports whether a lower-case name occurs in a text as a whole word, ignoring
// case.
func hasWord(text, name string) bool {
	part := func(at int) bool {
		if at < 0 || at >= len(text) {
			return false
		}
		c := text[at]
		return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
	}
	text = strings.ToLower(text)
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		at += from
		if !part(at-1) && !part(at+len(name)) {
			return true
		}
		from = at + len(name)
	}
}

// sampled returns the statement with SAMPLE written around the stream at pos.
func (r *resolver) sampled(pos parser.Span, stream string) string {
	fix := "SAMPLE(" + stream + ", 100ms)"
	if len(r.views) > 0 || strings.Contains(r.src, "\n") || pos.Stop > len(r.src) {
		return fix
	}
	return strings.TrimSuffix(strings.TrimSpace(r.src[:pos.Start]+fix+r.src[pos.Stop:]), ";")
}

// scope returns the scope of the text being resolved: that of a definition is its owner's.
func (r *resolver) scope() definitions.Scope {
	s := r.env.Scope
	if n := len(r.views); n > 0 {
		s.Owner, _ = definitions.Split(r.views[n-1])
	}
	return s
}

// DidYouMean returns the hint for a name of a definition that is not visible: the same name
// of another owner, or similar names; "" if there are none.
func DidYouMean(name string, visible []string) string {
	if with := definitions.Elsewhere(name, visible); len(with) > 0 {
		return "did you mean " + strings.Join(with, " or ") + "?"
	}
	return plan.DidYouMean(name, visible)
}

// newName rejects the name of a new definition that would look qualified.
func (r *resolver) newName(kind string, name *parser.Ident) error {
	if strings.Contains(name.Name, ".") {
		return r.hintf(name.Pos(), "owner.name is "+kind+" of another user", "the name of %s must not contain a dot", kind)
	}
	return nil
}

// view inlines a user's stream with this qualified name.
func (r *resolver) view(s *parser.Source, own string, v *parser.CreateStream, lv level, every time.Duration) (*scope, error) {
	if slices.Contains(r.views, own) {
		return nil, r.errorf(s.Pos(), "%s is defined in terms of itself", v.Name.Name)
	}
	src := r.src
	r.views, r.src = append(r.views, own), v.String()
	out, err := r.subquery(v.Query, nil, definition, every)
	r.views, r.src = r.views[:len(r.views)-1], src
	if err != nil {
		return nil, err
	}
	if out.bare != nil && lv != definition {
		return nil, r.hintf(s.Pos(), r.sampled(s.Pos(), v.Name.Name),
			"%s has a value at every instant and cannot be read tuple by tuple", v.Name.Name)
	}
	if every > 0 && !sampledLeaf(out.node) {
		return nil, r.hintf(s.Pos(), "write "+v.Name.Name+" without SAMPLE", "%s has tuples of its own and cannot be sampled", v.Name.Name)
	}
	r.qualify(out, s.Name.Name)
	return out, nil
}

func sampledLeaf(n plan.Node) bool {
	for _, l := range plan.Leaves(n) {
		if l.Every > 0 {
			return true
		}
	}
	return false
}

// subquery resolves a query in FROM. If it did not select the timestamp, that remains
// accessible: every tuple has one.
func (r *resolver) subquery(q *parser.Query, with ctes, lv level, every time.Duration) (*scope, error) {
	if q.For != nil {
		return nil, r.hintf(q.For.Pos(), "write it after the last parenthesis: SELECT ... FROM (SELECT ...) FOR "+q.For.String(),
			"FOR belongs at the end of the whole statement, not in a sub-query")
	}
	if len(r.views) > 0 {
		if err := r.misplacedOverhead(q); err != nil {
			return nil, err
		}
	}
	if err := r.misplacedPrecision(q); err != nil {
		return nil, err
	}
	if lv == top {
		lv = nested
	}
	return r.queryEvery(q, with, lv, every)
}

// maxWindow is the largest size, slide, gap or WITHIN. Operators add it to times and
// subtract it: with twice the largest, times of 1704 to 2235 do not overflow, and sources
// have no others.
const maxWindow = 3650 * 24 * time.Hour

func (r *resolver) tooLargeWindow(size *parser.Literal) error {
	most := strconv.FormatInt(int64(maxWindow), 10)
	if size.Kind == parser.LitDuration {
		most = plan.FormatDuration(int64(maxWindow))
	}
	return r.errorf(size.Pos(), "a window's size must not be more than %s", most)
}

func (r *resolver) window(s *parser.Source, with ctes, lv level) (*scope, error) {
	in, err := r.source(s.Src, with, lv, 0)
	if err != nil {
		return nil, err
	}
	if in.bare != nil {
		return nil, r.hintf(s.Src.Pos(), r.sampled(s.Src.Pos(), in.bare.Name),
			"%s has a value at every instant and cannot be read tuple by tuple", in.bare.Name)
	}
	if in.windowed {
		return nil, r.errorf(s.Pos(), "a window over a window is not supported yet")
	}
	sch := in.node.Schema()
	if err := r.checkTimestamp(in, s.Src); err != nil && !in.ends {
		return nil, err
	}
	if sch.Time < 0 || in.ends {
		return nil, r.hintf(s.Src.Pos(), "select its timestamp, or window the stream inside", "a window needs rows with a timestamp, which this source does not have")
	}
	w := &plan.Window{Input: in.node, Spec: plan.WindowSpec{Time: sch.Time}}
	durs := make([]time.Duration, len(s.Args))
	for i, a := range s.Args {
		if a.Int <= 0 {
			return nil, r.errorf(a.Pos(), "a window's size must be above zero")
		}
		if want := sch.Fields[sch.Time].Type; want == types.Timestamp && a.Kind != parser.LitDuration {
			return nil, r.hintf(a.Pos(), "write "+a.Text+"s, "+a.Text+"ms ...", "a window over timestamps needs a duration")
		} else if want == types.Bigint && a.Kind != parser.LitInt {
			return nil, r.hintf(a.Pos(), "write a plain number, such as 100", "the rows of this file have no timestamp: a window is a number of lines")
		}
		if durs[i] = time.Duration(a.Int); durs[i] > maxWindow {
			return nil, r.tooLargeWindow(a)
		}
	}
	switch s.Kind {
	case parser.SourceTumble:
		w.Spec.Kind, w.Spec.Size = plan.Tumble, durs[0]
	case parser.SourceHop:
		w.Spec.Kind, w.Spec.Slide, w.Spec.Size = plan.Hop, durs[0], durs[1]
		if durs[1]%durs[0] != 0 {
			return nil, r.errorf(s.Args[1].Pos(), "the size of a HOP must be a whole number of slides")
		}
		if durs[1]/durs[0] > 1000 {
			return nil, r.errorf(s.Args[1].Pos(), "a HOP may put a row into 1,000 windows at most")
		}
	case parser.SourceSession:
		w.Spec.Kind, w.Spec.Gap = plan.Session, durs[0]
		ec := &exprCtx{r: r, in: in}
		for _, e := range s.By {
			x, err := ec.resolve(e)
			if err != nil {
				return nil, err
			}
			w.Spec.PartitionBy = append(w.Spec.PartitionBy, x)
		}
	}
	t := sch.Fields[sch.Time]
	w.Out = types.Schema{Time: sch.Time, Fields: append(slices.Clone(sch.Fields),
		types.Field{Name: "window_start", Qualifier: t.Qualifier, Type: t.Type},
		types.Field{Name: "window_end", Qualifier: t.Qualifier, Type: t.Type})}
	out := *in
	out.node, out.windowed = w, true
	if in.visible == len(sch.Fields) {
		out.visible = len(w.Out.Fields)
	}
	return &out, nil
}

func (r *resolver) file(s *parser.Source) (*scope, error) {
	path := s.Args[0]
	if !tabular(path.Str) {
		return nil, r.errorf(path.Pos(), "cannot read '%s': only .csv and .jsonl files are known", path.Str)
	}
	sch, err := r.env.File(path.Str)
	if err != nil {
		var e error = r.placed(err)
		if pe, ok := e.(*parser.Error); ok {
			pe.Pos, pe.Src = path.Pos(), r.src
			return nil, pe
		}
		return nil, r.errorf(path.Pos(), "%v", err)
	}
	return r.leaf(&plan.Acquire{Stream: "file", Out: sch,
		Args: []plan.Const{{V: types.Str(path.Str), Start: path.Start, Stop: path.Stop}}}, s, true), nil
}

// tabular reports whether a path has the suffix of a file format that can be read and
// written.
func tabular(path string) bool {
	return strings.HasSuffix(path, ".csv") || strings.HasSuffix(path, ".jsonl")
}

// standingStream resolves the stream of a standing query with this qualified name; nil: there
// is none.
func (r *resolver) standingStream(s *parser.Source, name *parser.Ident, own string, every time.Duration) (*scope, error) {
	if r.env.Results == nil {
		return nil, nil
	}
	fields, found, known := r.env.Results.Columns(own)
	switch {
	case !found:
		return nil, nil
	case !known:
		return nil, r.hintf(name.Pos(), "SHOW QUERIES says how it is doing", "the standing query %s has no result yet", name.Name)
	case every > 0:
		return nil, r.hintf(name.Pos(), "write "+name.Name+" without SAMPLE", "%s has tuples of its own and cannot be sampled", name.Name)
	}
	a := &plan.Acquire{Stream: catalog.StandingStream, Out: types.Schema{Time: 0},
		Args: []plan.Const{{V: types.Str(own), Start: name.Start, Stop: name.Stop}, {V: types.Bool(r.finals)}, {V: types.Bool(r.fresh)}}}
	for _, f := range fields {
		f.Qualifier = name.Name
		a.Out.Fields = append(a.Out.Fields, f)
	}
	out := r.leaf(a, s, false)
	out.names = []string{name.Name}
	out.estimated = slices.ContainsFunc(fields, func(f types.Field) bool { return f.Bound != types.NoBound })
	return out, nil
}

// star expands * and alias.*.
func (r *resolver) star(out *selected, it *parser.SelectItem) error {
	in := out.ctx.in
	if it.Qualifier != nil && it.Qualifier.Name == "args" && in.hasArguments() && !slices.Contains(in.names, "args") {
		return r.starredArguments(it.Qualifier.Pos())
	}
	if it.Qualifier != nil && !slices.Contains(in.names, it.Qualifier.Name) {
		return r.hintf(it.Qualifier.Pos(), plan.DidYouMean(it.Qualifier.Name, in.names), "there is no source in FROM called %s", it.Qualifier.Name)
	}
	for i, f := range in.fields()[:in.visible] {
		if isValue(f.Name) {
			continue
		}
		if it.Qualifier != nil && len(in.names) > 1 && f.Qualifier != it.Qualifier.Name {
			continue // of another joined source
		}
		var x plan.Expr = &plan.Col{Index: i, Name: f.Name, T: f.Type}
		if out.ctx.agg != nil {
			var err error
			if x, err = out.ctx.agg.column(x, f.Name, it.Pos()); err != nil {
				return err
			}
		}
		out.exprs, out.names = append(out.exprs, x), append(out.names, f.Name)
	}
	return nil
}
