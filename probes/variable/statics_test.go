package variable

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// compileStatics builds testdata/statics.c as units main.c, a/unit.c and
// b/unit.c, the latter by a name without its directory, as a recursive make
// does.
func compileStatics(t testing.TB, flags ...string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/statics.c")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var objects []string
	for n, name := range []string{"main.c", "a/unit.c", "b/unit.c"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#define NUMBER "+strconv.Itoa(n)+"\n"+string(text)), 0o644); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			continue
		}
		object := filepath.Join(filepath.Dir(path), "unit.o")
		cmd := exec.Command(testenv.NeedProgram(t, "gcc"), append(slices.Clone(flags), "-c", "-o", object, filepath.Base(path))...)
		cmd.Dir = filepath.Dir(path)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		objects = append(objects, object)
	}
	return testenv.CompileC(t, filepath.Join(dir, "main.c"), append(slices.Clone(flags), objects...)...)
}

// The file name selects among static variables of one name.
func TestStaticsOfFiles(t *testing.T) { reported(t, staticsOfFiles) }

func staticsOfFiles(t testing.TB) {
	testenv.NeedWatchpoints(t)
	for _, flags := range [][]string{{"-O1", "-g"}, {"-O2", "-gdwarf-4"}, {"-O1", "-g", "-flto"}} {
		r := run(t, compileStatics(t, flags...))
		got, stop := observe(t, asked(r.pid, 0, "main.c::count", "a/unit.c::count", "b/unit.c::conf.limit", "shown"))
		r.tell(t, "05", "16", "27")
		stop()
		var told []string
		for _, row := range got.rows {
			told = append(told, row["var_name"]+" = "+row["var_value"]+" by "+row["function_name"])
		}
		want := []string{
			"main.c::count = 5 by set0", "a/unit.c::count = 6 by set1", "shown = 6 by set1", "b/unit.c::conf.limit = 7 by set2",
		}
		if strings.Join(told, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: rows %q, want %q", flags, told, want)
		}
	}
}

// Without the file they are refused; the error lists the name of each.
func TestStaticsOfOneName(t *testing.T) { reported(t, staticsOfOneName) }

func staticsOfOneName(t testing.TB) {
	testenv.NeedWatchpoints(t)
	r, bare := run(t, compileStatics(t, "-O1", "-g")), run(t, compileStatics(t, "-O1"))
	for _, c := range []struct {
		pid        int
		name, want string
	}{
		{r.pid, "count", "count of target cannot be observed: there are 3 static variables of that name: ask for a/unit.c::count or b/unit.c::count or main.c::count"},
		{r.pid, "conf.limit", "there are 3 static variables of that name: ask for a/unit.c::conf or b/unit.c::conf or main.c::conf"},
		{r.pid, "unit.c::count", "there are 2 static variables of that name: ask for a/unit.c::count or b/unit.c::count"},
		{r.pid, "nit.c::count", "target has no variable nit.c::count"},
		{bare.pid, "count", "several files have a static variable of that name, which cannot be distinguished without debug information (-g)"},
	} {
		_, err := New().Prepare(t.Context(), asked(c.pid, 0, c.name))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	got, stop := observe(t, asked(bare.pid, 0, "shown"))
	bare.tell(t, "05", "16")
	stop()
	if len(got.rows) != 1 || got.rows[0]["var_value"] != "6" {
		t.Errorf("of the symbol table, rows %v", got.rows)
	}
}
