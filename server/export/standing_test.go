package export_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

const load = "CREATE EXPORT load TO PROMETHEUS AS SELECT percent_busy FROM SAMPLE(cpu_usage, 100ms)"

// An export is listed, described, replaced and dropped, and outlives the engine.
func TestExportIsADefinition(t *testing.T) {
	dir := t.TempDir()
	o := server.Options{StateDir: dir, Metrics: true}
	e, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, notices := run(t, e, load); len(notices) != 0 {
		t.Errorf("%v", notices)
	}
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Execute(t.Context(), load); err == nil || !strings.Contains(err.Error(), "there is an export load already") {
		t.Errorf("created twice: %v", err)
	}
	run(t, e, strings.Replace(load, "CREATE", "CREATE OR REPLACE", 1))
	if rows, _ := run(t, e, "DESCRIBE load"); fmt.Sprint(rows) != "[[load_busy_ratio gauge 1 percent_busy]]" {
		t.Errorf("described: %v", rows)
	}
	if rows, _ := run(t, e, "EXPLAIN "+strings.Replace(load, "load", "other", 1)); !strings.Contains(fmt.Sprint(rows), "other_busy_ratio: gauge of percent_busy") {
		t.Errorf("explained: %v", rows)
	}
	testenv.Until(t, "it has a series", func() bool { return len(gathered(e, "load_busy_ratio")) == 1 })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = newEngine(t, o)
	if left := e.Restore(context.Background(), func(string) (*grant.Grant, bool) { return nil, true }); len(left) != 0 {
		t.Fatalf("not restored: %v", left)
	}
	rows, _ := run(t, e, "SHOW EXPORTS LIKE 'lo%'")
	if len(rows) != 1 || rows[0][2] != "running" {
		t.Errorf("restored: %v", rows)
	}
	run(t, e, "DROP EXPORT load")
	if files, _ := filepath.Glob(dir + "/*.json"); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
	run(t, e, "DROP EXPORT IF EXISTS load")
	for _, kind := range []string{"STREAM", "TRIGGER", "MODEL"} {
		run(t, e, "DROP "+kind+" IF EXISTS load")
	}
}

func gathered(e *server.Engine, name string) (values []float64) {
	for _, f := range e.Gather(func(string) bool { return true }) {
		if f.GetName() == name {
			for _, m := range f.Metric {
				values = append(values, m.GetGauge().GetValue())
			}
		}
	}
	return values
}

// What an export's owner may not do is refused, and names belong to their owners.
func TestExportsAreTheirOwners(t *testing.T) {
	e := newEngine(t, server.Options{Metrics: true})
	prefix, err := grant.ParseExportPrefix("otlp://127.0.0.1:4317")
	if err != nil {
		t.Fatal(err)
	}
	alice := e.As(&grant.Grant{User: "alice", Exports: []grant.Prefix{prefix}})
	bob := e.As(&grant.Grant{User: "bob"})
	run(t, alice, load)
	run(t, bob, load)
	refused := func(who wire.Engine, statement, want string) {
		t.Helper()
		s, err := who.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if r, err := s.Execute(t.Context(), statement); err == nil {
			r.Close()
			t.Errorf("%s was not refused", statement)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	const sends = "CREATE EXPORT sends TO '%s' AS SELECT used FROM SAMPLE(memory_usage, 1s)"
	refused(bob, fmt.Sprintf(sends, "otlp://127.0.0.1:4317"), `needs the grant "exports"`)
	refused(alice, fmt.Sprintf(sends, "otlp://127.0.0.1:4318"), "you may not send to")
	refused(alice, fmt.Sprintf(sends, "otlp+http://127.0.0.1:4317"), "you may not send to")
	refused(alice, "CREATE EXPORT calls TO PROMETHEUS AS SELECT COUNT(*) FROM function_start WHERE process = 'none'", "needs the role trace")
	refused(bob, "DROP EXPORT alice.load", "there is no export")
	run(t, alice, fmt.Sprintf(sends, "otlp://127.0.0.1:4317"))
	for _, who := range []wire.Engine{alice, bob} {
		rows, _ := run(t, who, "SELECT export FROM sys.exports WHERE export = 'load'")
		if len(rows) != 1 {
			t.Errorf("%v", rows)
		}
	}
	e.Expel("alice")
	if rows, _ := run(t, e, "SELECT owner FROM sys.exports"); fmt.Sprint(rows) != "[[bob]]" {
		t.Errorf("after alice was expelled: %v", rows)
	}
}

// On a full disk the export exists, and it is said that it will not outlive the server.
func TestFullDisk(t *testing.T) {
	testenv.NeedRoot(t)
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "none", dir).CombinedOutput(); err != nil {
		testenv.Skip(t, "no file system can be mounted: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	e := newEngine(t, server.Options{StateDir: dir, Metrics: true})
	if err := os.WriteFile(dir+"/full", make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	_, notices := run(t, e, load)
	if len(notices) != 1 || !strings.Contains(notices[0], "export load is not saved, and will be lost when the server stops") {
		t.Errorf("%v", notices)
	}
	testenv.Until(t, "it has a series", func() bool { return len(gathered(e, "load_busy_ratio")) == 1 })
}
