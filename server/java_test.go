package server_test

import (
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// Methods of the classes that a Java machine has loaded are listed, described and
// completed as functions are.
func TestMethodsOfJavaAreFunctions(t *testing.T) {
	testenv.NeedUprobes(t)
	s := newSession(t, wire.Options{PID: java(t).pid()})
	if rows := ask(t, s, "SHOW FUNCTIONS LIKE 'app.Shop.main'").rows; len(rows) != 1 || rows[0][1] != "app.Shop" {
		t.Errorf("listed: %v", rows)
	}
	if rows := ask(t, s, `DESCRIBE FUNCTION "app.Shop.main"`).rows; len(rows) != 1 || !strings.Contains(rows[0][3], "app.Shop.main(java.lang.String[])") {
		t.Errorf("described: %v", rows)
	}
	if names := s.Complete(t.Context(), "function", "", "app.Shop.m"); !slices.Equal(names, []string{"app.Shop.main"}) {
		t.Errorf("completed: %v", names)
	}
	if _, err := s.Execute(t.Context(), `DESCRIBE FUNCTION "app.Shop.mian"`); err == nil || !strings.Contains(err.Error(), "no function named app.Shop.mian") {
		t.Errorf("error %v", err)
	}
}
