package uprobe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// Of a library shared by all processes only the calls of one executable are selected:
// the program checks the process's executable, by the device number of the kernel, which
// differs from that of stat.
func TestExecutableOnAnOverlay(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := testenv.Overlay(t)
	lib, src := filepath.Join(dir, "libes_overlaid.so"), filepath.Join(dir, "lib.c")
	text := "volatile long lsink;\n__attribute__((noinline)) long lib_work(long n) { lsink += n; return n + 1; }\n"
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", lib, src).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	built := testenv.CompileCText(t, prelude+`
long lib_work(long);
int main(int argc, char **argv) { ready(); for (long i = 0; i < atol(argv[1]); i++) lib_work(i); }
`, "-O1", "-Wl,-rpath,"+dir, "-Wl,--no-as-needed", lib)
	target, stranger := filepath.Join(dir, "es-mine"), filepath.Join(dir, "es-stranger")
	testenv.CopyFile(t, built, target)
	testenv.CopyFile(t, built, stranger)
	sel := testplan.Call("and", testplan.Named("lib_work"), testplan.Is(plan.SelectModule, filepath.Base(lib)))
	p := provider(t, Options{})
	r, other := run(t, target, "30"), run(t, stranger, "40")
	calls, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{target}}, sel, "process"))
	later := run(t, target, "5")
	other.finish(success)
	r.finish(success)
	later.finish(success)
	calls.Stop()
	if got.wait(t); len(got.rows) != 35 {
		t.Errorf("%d calls, want 35", len(got.rows))
	}
	for _, row := range got.rows {
		if row[0].S != "es-mine" {
			t.Fatalf("a call of %s", row[0].S)
		}
	}
}
