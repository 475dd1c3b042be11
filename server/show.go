package server

import (
	"context"
	"fmt"
	"strings"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/container"
	"endoscope/probes/lang/python"
	"endoscope/probes/process"
	"endoscope/server/answer"
	"endoscope/server/introspect"
	"endoscope/server/wire"
)

// show runs SHOW what [LIKE 'pattern']. The pattern is matched with the first
// text column. An owner, if there is one, is the last column.
func (s *session) show(ctx context.Context, st *parser.Show, src string) (wire.Result, error) {
	var rel *answer.Table
	switch st.What {
	case "STREAMS":
		rel = s.showStreams()
	case "FUNCTIONS":
		release, err := s.reserveSymbols(s.program().Target)
		if err != nil {
			return nil, answer.Forbidden(err, st, src)
		}
		defer release()
		fs, err := s.program().Functions()
		if err != nil {
			return nil, answer.WithPlace(planner.Placed(err, src), st, src)
		}
		rel = answer.NewTable(answer.Text("function_name"), answer.Text("class"), answer.Number("size"), answer.Text("address"))
		for _, f := range fs {
			rel.Add(types.Str(f.Name), types.Str(f.Class), types.Int(int64(f.Size)), types.Str(fmt.Sprintf("%#x", f.Addr)))
		}
		methods, remark, err := s.program().JavaMethods()
		if err != nil {
			return nil, answer.WithPlace(planner.Placed(err, src), st, src)
		}
		for _, m := range methods {
			rel.Add(types.Str(m.Function()), types.Str(m.Class), types.Int(int64(m.Size)), types.NullOf(types.Varchar))
		}
		if remark != "" {
			rel.Notices = append(rel.Notices, remark)
		}
		places, err := s.program().Marked()
		if err != nil {
			return nil, answer.WithPlace(planner.Placed(err, src), st, src)
		}
		for _, m := range places {
			if m.String() == "usdt:"+python.ReturnPlace {
				rel.Notices = append(rel.Notices, "functions of Python are not listed: AND module LIKE '%.py' chooses them in queries (help python)")
			}
			rel.Add(types.Str(m.String()), types.Str(""), types.Int(int64(len(m.Site.Bytes))), types.Str(fmt.Sprintf("%#x", m.Site.Addr)))
		}
	case "CONTAINERS":
		var err error
		if rel, err = s.showContainers(); err != nil {
			return nil, err
		}
	case "CHECKS":
		var err error
		if rel, err = s.showChecks(ctx); err != nil {
			return nil, answer.WithPlace(planner.Placed(err, src), st, src)
		}
	case "SETTINGS":
		rel = answer.NewTable(answer.Text("setting"), answer.Text("value"), answer.Text("description"))
		for _, k := range catalog.Settings {
			if !k.Later {
				rel.Add(types.Str(k.Name), types.Str(plan.FormatValue(s.setting(k.Name))), types.Str(k.Doc))
			}
		}
	case "HOSTS":
		return nil, answer.Refuse(st, src, "endoscope --fleet URL", "SHOW HOSTS is of a fleet")
	case "CONTEXTS":
		rel = s.showContexts()
	case "MODELS":
		rel = s.showModels()
	case "PROCESSES":
		ps, err := process.ListFor(s.may.Sees())
		if err != nil {
			return nil, err
		}
		rel = answer.NewTable(answer.Text("process"), answer.Number("pid"), answer.Text("exe"))
		for _, p := range ps {
			rel.Add(types.Str(p.Comm), types.Int(int64(p.PID)), types.Str(p.Exe))
		}
	case "QUERIES", "PROBES", "DROPS", "TRIGGERS", "EXPORTS":
		name := "sys." + strings.ToLower(st.What)
		sch := catalog.Find(name)
		rel = answer.NewTable()
		for _, c := range sch.All()[1:] { // without the time, which is now
			rel.Header = append(rel.Header, wire.Column{Name: c.Name, Type: c.Type})
		}
		for _, row := range s.e.system.Snapshot(name, introspect.UsersOf(s.may.Sees())) {
			rel.Add(row[1:]...)
		}
	default:
		return nil, answer.Unsupported(st, src, "SHOW "+st.What)
	}
	if n := len(rel.Header) - 1; rel.Header[n].Name == "owner" && !s.seesOwners() {
		rel.Header = rel.Header[:n]
		for i, row := range rel.Rows {
			rel.Rows[i] = row[:n]
		}
	}
	if st.Like != nil {
		rel.KeepLike(st.Like.Str)
	}
	return rel, nil
}

func (s *session) showStreams() *answer.Table {
	rel := answer.NewTable(answer.Text("stream"), answer.Text("kind"), answer.Text("description"), answer.Text("owner"))
	for _, st := range catalog.Streams {
		if !st.Later {
			rel.Add(types.Str(st.Name), types.Str(st.Kind.String()), types.Str(st.Doc), types.NullOf(types.Varchar))
		}
	}
	for _, key := range s.e.views.Names() {
		if v := s.e.views.Get(key); v != nil && s.scope.Has(key) { // otherwise it was dropped just now
			owner, name := definitions.Split(key)
			rel.Add(types.Str(name), types.Str("defined"), types.Str(v.Query.String()), types.Str(owner))
		}
	}
	for _, q := range s.e.options.Standing.List() {
		if s.scope.Has(definitions.Qualify(q.Owner(), q.Name)) {
			rel.Add(types.Str(q.Name), types.Str("enumerable"), types.Str("what the standing query of that name gives"), types.Str(q.Owner()))
		}
	}
	for _, key := range s.e.triggers.Flows.Names() {
		if s.scope.Has(key) {
			owner, name := definitions.Split(key)
			rel.Add(types.Str(name), types.Str("enumerable"), types.Str("what the trigger of that name does"), types.Str(owner))
		}
	}
	return rel
}

// seesOwners reports whether lists show the owner: the session may see what others own.
func (s *session) seesOwners() bool { return s.may != nil && s.may.Admin }

// showContainers lists the containers in which processes run that the session may observe.
func (s *session) showContainers() (*answer.Table, error) {
	ps, err := process.ListFor(s.may.Sees())
	if err != nil {
		return nil, err
	}
	rel := answer.NewTable()
	for _, name := range container.Columns {
		rel.Header = append(rel.Header, answer.Text(name))
	}
	rel.Header = append(rel.Header, answer.Number("processes"))
	rows := map[string]int{}
	for _, p := range ps {
		c := process.ContainerOf(p.PID)
		if c == nil || c.ID == "" {
			continue
		}
		if at, ok := rows[c.ID]; ok {
			rel.Rows[at][len(container.Columns)].I++
			continue
		}
		rows[c.ID] = len(rel.Rows)
		var row []types.Value
		for _, name := range container.Columns {
			v := types.NullOf(types.Varchar)
			if text := c.Get(name); text != "" {
				v = types.Str(text)
			}
			row = append(row, v)
		}
		rel.Add(append(row, types.Int(1))...)
	}
	answering, failed := container.Default.Runtimes()
	switch {
	case failed != nil:
		rel.Notices = append(rel.Notices, fmt.Sprintf("a container runtime does not answer: %v", failed))
	case len(answering) == 0:
		rel.Notices = append(rel.Notices, "no container runtime has a socket here: containers are called by their ids (help containers)")
	}
	return rel, nil
}
