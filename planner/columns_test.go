package planner

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/parser"
	"endoscope/planner/types"
)

// Columns that multiply are refused, at the name or the * that the user wrote, before they
// take memory.
func TestColumnsThatMultiply(t *testing.T) {
	env := testEnv()
	opened := 0
	env.File = func(string) (types.Schema, error) {
		opened++
		s := types.Schema{Time: -1}
		for i := range 2000 {
			s.Fields = append(s.Fields, types.Field{Name: fmt.Sprintf("c%d", i), Type: types.Bigint})
		}
		return s, nil
	}
	nested := func(depth int, from string) string {
		for range depth {
			from = "(SELECT *, * FROM " + from + ")"
		}
		return "SELECT * FROM " + from
	}
	var unions []string
	for range 200 {
		unions = append(unions, "SELECT * FROM file('x.csv')")
	}
	// Streams of streams, as one would define them one after the other.
	for i := range 40 {
		from := "SAMPLE(memory_usage, 1s)"
		if i > 0 {
			from = fmt.Sprintf("twice%d", i-1)
		}
		c := mustParse(t, fmt.Sprintf("CREATE STREAM twice%d AS SELECT *, * FROM %s", i, from)).(*parser.CreateStream)
		env.Views.Put(c, c.Name.Name, true)
	}
	for _, c := range []struct{ statement, want string }{
		{nested(60, "SAMPLE(memory_usage, 1s)"), "these are more than 4000 columns"},
		{nested(2, "file('x.csv')"), "these are more than 4000 columns"},
		{"SELECT " + strings.Repeat("*, ", 1000) + "* FROM file('x.csv')", "these are more than 4000 columns"},
		{"SELECT n FROM (" + strings.Join(unions, " UNION ALL ") + ")", "this statement expands to more than 100000 columns"},
		{"SELECT * FROM twice39", "these are more than 4000 columns"},
	} {
		opened = 0
		_, err := Plan(mustParse(t, c.statement).(*parser.Query), c.statement, env)
		e, ok := err.(*parser.Error)
		if !ok || e.Msg != c.want || e.Src != c.statement || e.Pos.Stop <= e.Pos.Start {
			t.Errorf("%.80s: %v", c.statement, err)
		}
		if opened > 51 {
			t.Errorf("%.80s: the file is read %d times", c.statement, opened)
		}
	}
	for _, statement := range []string{nested(1, "file('x.csv')"), strings.Join(unions[:20], " UNION ALL "), "SELECT * FROM twice5"} {
		if _, err := Plan(mustParse(t, statement).(*parser.Query), statement, env); err != nil {
			t.Errorf("%.80s: %v", statement, err)
		}
	}
}
