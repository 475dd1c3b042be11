package server_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// What differs from run to run, and from machine to machine.
var (
	addresses = regexp.MustCompile(`0x[0-9a-f]+`)
	prices    = regexp.MustCompile(`about \d+(\.\d+)?[nu]?s`)
)

// TestExplainCreate runs testdata/explain: what EXPLAIN CREATE TRIGGER and EXPLAIN
// CREATE MODEL say, with the target of TestTriggerArms, and that they leave nothing.
func TestExplainCreate(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	e, err := server.New(server.Options{ModelDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	pid := startFlipping(t).Process.Pid
	s, err := e.NewSession(context.Background(), wire.Options{PID: pid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	datadriven.RunTest(t, "testdata/explain", func(t *testing.T, d *datadriven.TestData) string {
		r, err := s.Execute(t.Context(), d.Input)
		if err != nil {
			return err.Error()
		}
		if d.Cmd == "run" {
			read(t, r)
			return ""
		}
		a := read(t, r)
		var b strings.Builder
		for _, row := range a.rows {
			b.WriteString(row[0] + "\n")
		}
		for _, n := range a.notices {
			b.WriteString("notice: " + n + "\n")
		}
		said := addresses.ReplaceAllString(b.String(), "ADDRESS")
		said = prices.ReplaceAllString(said, "about N ns")
		said = strings.ReplaceAll(said, "pid = "+strconv.Itoa(pid), "pid = PID")
		return strings.ReplaceAll(said, dir, "DIR")
	})
	for _, list := range []string{"SHOW TRIGGERS", "SHOW MODELS", "SHOW PROBES"} {
		if left := run(t, s, list).rows; len(left) > 0 {
			t.Errorf("%s: %v", list, left)
		}
	}
}
