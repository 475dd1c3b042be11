package help

import (
	"os"
	"slices"
	"strings"
	"testing"

	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/standing"
	"endoscope/planner/types"
)

// example is a fenced block of SQL.
type example struct {
	line     int
	src      string
	template bool // contains placeholders
}

func examplesOf(src string) (all []example) {
	inside := false
	var e example
	for i, line := range strings.Split(src, "\n") {
		switch {
		case inside && strings.HasPrefix(line, "```"):
			inside = false
			all = append(all, e)
		case inside:
			e.src += line + "\n"
		case line == "```sql" || line == "```sql template":
			inside, e = true, example{line: i + 1, template: strings.HasSuffix(line, "template")}
		}
	}
	return all
}

// Every SQL example in the manual and the README can be planned. The examples of a
// file form one session.
func TestExamplesCanBePlanned(t *testing.T) {
	n := 0
	for _, path := range markdown(t) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := newSession()
		for _, e := range examplesOf(string(src)) {
			if e.template {
				continue
			}
			for _, p := range parser.Split(e.src) {
				n++
				if err := s.plan(p.Text); err != nil {
					t.Errorf("%s:%d: %v", path, e.line, err)
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d statements were found", n)
	}
}

func TestExamplesOf(t *testing.T) {
	got := examplesOf("a\n```sql\nSELECT 1\n```\n```\nx\n```\n```sql template\nSELECT ...\n```\n")
	want := []example{{2, "SELECT 1\n", false}, {8, "SELECT ...\n", true}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// session is the state that statements leave for later ones: definitions.
type session struct {
	env    *planner.Env
	models models
}

// models are names of models. Plans do not need their content.
type models map[string]bool

func (m models) Model(name string) (types.Value, bool, error) {
	return types.NullOf(types.Encoding), m[name], nil
}

func (m models) ModelNames() (names []string) {
	for n := range m {
		names = append(names, n)
	}
	return names
}

func newSession() *session {
	s := &session{models: models{}}
	s.env = &planner.Env{
		Views:    definitions.NewViews(),
		Contexts: definitions.NewContexts(),
		Triggers: definitions.NewTriggers(),
		Target:   plan.Target{PIDs: []int{42}},
		Models:   s.models,
		Results:  results{},
		Eval:     expr.EvalConst,
		File:     fileColumns,
		Values:   func(a *plan.Acquire) ([]types.Type, error) { return valueTypes(a), nil },
	}
	return s
}

// fileColumns returns the columns of the files that examples read.
func fileColumns(path string) (types.Schema, error) {
	columns := map[string][]string{
		"calls.csv":    {"name", "ms"},
		"events.jsonl": {"event", "entity_id", "parent_id", "other_id", "name", "type_name", "category", "thread_name"},
	}[path]
	if columns == nil {
		return types.Schema{}, plan.Errorf(0, 0, "there is no file '%s'", path)
	}
	s := types.Schema{Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp}}}
	for _, c := range columns {
		s.Fields = append(s.Fields, types.Field{Name: c, Type: types.Varchar})
	}
	return s, nil
}

// valueTypes treats all values of unknown type as text.
func valueTypes(a *plan.Acquire) []types.Type {
	out := a.Out.Types()
	for i, f := range a.Out.Fields {
		if f.Type == types.Null {
			out[i] = types.Varchar
		}
	}
	return out
}

// results are the columns of standing queries.
type results map[string][]types.Field

func (r results) Columns(name string) (fields []types.Field, found, known bool) {
	fields, found = r[name]
	return fields, found, found
}

func (r results) Names() []string { return nil }

// plan plans a statement and keeps its definitions.
func (s *session) plan(text string) error {
	st, err := parser.Parse(text)
	if err != nil {
		return err
	}
	if e, ok := st.(*parser.Explain); ok {
		st = e.Of
	}
	switch st := st.(type) {
	case *parser.CreateQuery:
		env := *s.env
		env.Host, env.Standing = "host", true
		_, upper, err := planner.PlanShare(st.Query, text, &env)
		if err == nil {
			s.env.Results.(results)[st.Name.Name] = append([]types.Field{{Name: standing.Time, Type: types.Timestamp},
				{Name: standing.Revision, Type: types.Bigint}, {Name: standing.Final, Type: types.Boolean}}, upper.Upper.Schema().Fields...)
		}
		return err
	case *parser.Query:
		_, err = planner.Plan(st, text, s.env)
	case *parser.Insert:
		_, err = planner.PlanInsert(st, text, s.env)
	case *parser.CreateStream:
		if err = planner.CheckView(st, text, s.env); err == nil {
			s.env.Views.Put(st, st.Name.Name, true)
		}
	case *parser.CreateModel:
		if _, err = planner.PlanModel(st, text, s.env); err == nil {
			s.models[st.Name.Name] = true
		}
	case *parser.CreateTrigger:
		if _, err = planner.PlanTrigger(st, text, s.env); err == nil {
			s.env.Triggers.Put(st.Name.Name, definitions.Flow{})
		}
	case *parser.CreateExport:
		_, err = planner.PlanExport(st, text, s.env)
	case *parser.CreateContext:
		if err = planner.CheckContext(st, text, s.env); err == nil {
			s.env.Contexts.Put(st, st.Name.Name, true)
		}
	case *parser.Set:
		if catalog.FindSetting(st.Key.Name) == nil {
			err = plan.Errorf(0, 0, "there is no setting %s", st.Key.Name)
		}
	}
	return err
}
