package server

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/server/wire"
)

// show answers SHOW what [LIKE 'pattern']. The pattern is matched with the
// first column that is a text.
func (s *session) show(ctx context.Context, st *parser.Show, src string) (wire.Result, error) {
	var rel *relation
	switch st.What {
	case "STREAMS":
		rel = s.showStreams()
	case "FUNCTIONS":
		fs, err := s.functions()
		if err != nil {
			return nil, at(planner.Placed(err, src), st, src)
		}
		rel = newRelation(text("function_name"), text("class"), number("size"), text("address"))
		for _, f := range fs {
			rel.add(types.Str(f.Name), types.Str(f.Class), types.Int(int64(f.Size)), types.Str(fmt.Sprintf("%#x", f.Addr)))
		}
		methods, remark, err := s.javaMethods()
		if err != nil {
			return nil, at(planner.Placed(err, src), st, src)
		}
		for _, m := range methods {
			rel.add(types.Str(m.Function()), types.Str(m.Class), types.Int(int64(m.Size)), types.NullOf(types.Varchar))
		}
		if remark != "" {
			rel.notices = append(rel.notices, remark)
		}
		places, err := s.marked()
		if err != nil {
			return nil, at(planner.Placed(err, src), st, src)
		}
		for _, m := range places {
			rel.add(types.Str(m.String()), types.Str(""), types.Int(int64(len(m.Site.Bytes))), types.Str(fmt.Sprintf("%#x", m.Site.Addr)))
		}
	case "SETTINGS":
		rel = newRelation(text("setting"), text("value"), text("description"))
		for _, k := range catalog.Settings {
			if !k.Later {
				rel.add(types.Str(k.Name), types.Str(plan.FormatValue(s.setting(k.Name))), types.Str(k.Doc))
			}
		}
	case "MODELS":
		rel = s.showModels()
	case "PROCESSES":
		ps, err := process.ListFor(s.may.Sees())
		if err != nil {
			return nil, err
		}
		rel = newRelation(text("process"), number("pid"), text("exe"))
		for _, p := range ps {
			rel.add(types.Str(p.Comm), types.Int(int64(p.PID)), types.Str(p.Exe))
		}
	case "QUERIES", "PROBES", "DROPS", "TRIGGERS":
		name := "sys." + strings.ToLower(st.What)
		sch := catalog.Find(name)
		rel = newRelation()
		for _, c := range sch.Columns[1:] { // the time of a SHOW is now
			rel.columns = append(rel.columns, wire.Column{Name: c.Name, Type: c.Type})
		}
		for _, row := range s.e.snapshot(name, whoseOf(s.may.Sees())) {
			rel.add(row[1:]...)
		}
	default:
		return nil, unsupported(st, src, "SHOW "+st.What)
	}
	if st.Like != nil {
		rel.like(st.Like.Str)
	}
	return rel, nil
}

func (s *session) showStreams() *relation {
	rel := newRelation(text("stream"), text("kind"), text("description"))
	for _, st := range catalog.Streams {
		if !st.Later {
			rel.add(types.Str(st.Name), types.Str(st.Kind.String()), types.Str(st.Doc))
		}
	}
	for _, name := range s.views.Names() {
		if v := s.views.Get(name); v != nil { // else it was dropped just now
			rel.add(types.Str(name), types.Str("defined"), types.Str(v.Query.String()))
		}
	}
	for _, name := range s.triggerNames() {
		rel.add(types.Str(name), types.Str("enumerable"), types.Str("what the trigger of that name does"))
	}
	return rel
}

// like keeps the rows whose first text matches a LIKE pattern, in any case.
func (r *relation) like(pattern string) {
	col := 0
	for i, c := range r.columns {
		if c.Type == types.Varchar {
			col = i
			break
		}
	}
	var b strings.Builder
	b.WriteString("(?is)^")
	for _, c := range pattern {
		switch c {
		case '%':
			b.WriteString(".*")
		case '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	re := regexp.MustCompile(b.String() + "$")
	var kept [][]types.Value
	for _, row := range r.rows {
		if re.MatchString(row[col].S) {
			kept = append(kept, row)
		}
	}
	r.rows = kept
}

// at gives an error the statement's place, if it has none.
func at(err error, n parser.Node, src string) error {
	if e, ok := err.(*parser.Error); ok && e.Src == "" {
		e.Pos, e.Src = n.Pos(), src
	}
	return err
}
