package variable

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"endoscope/probes/debugfiles"
	"endoscope/probes/testenv"

	"endoscope/planner/plan"
)

// Variables of programs whose debug information is in .dwo files are those of the same program
// where it is not.
func TestVariablesOfSplitUnits(t *testing.T) {
	names := map[string][]string{
		"testdata/vars.c":     nil,
		"testdata/bases.cc":   nil,
		"testdata/pointers.c": nil,
	}
	for source := range names {
		names[source] = variablesOf(t, testenv.CompileC(t, source, "-g", "-O1", "-pthread"))
		if len(names[source]) < 3 {
			t.Fatalf("%s has %q", source, names[source])
		}
	}
	for source, list := range names {
		want := locationsOf(t, testenv.CompileC(t, source, "-g", "-O1", "-pthread"), list)
		for _, flags := range []string{"-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -fdebug-types-section"} {
			got := locationsOf(t, testenv.CompileC(t, source, append(strings.Fields(flags), "-gsplit-dwarf", "-O1", "-pthread")...), list)
			for i, name := range list {
				if got[i] != want[i] {
					t.Errorf("%s %s: %s is %s, want %s", source, flags, name, got[i], want[i])
				}
			}
		}
	}
}

// variablesOf lists the variables of a program's symbol table that its source declares, with
// the fields of some.
func variablesOf(t *testing.T, program string) (names []string) {
	t.Helper()
	for line := range strings.Lines(testenv.Output(t, "nm", "-C", program)) {
		f := strings.Fields(line)
		if len(f) == 3 && strings.Contains("bBdD", f[1]) && !strings.HasPrefix(f[2], "_") && !strings.Contains(f[2], ".") && !strings.Contains(f[2], "@") {
			names = append(names, f[2], f[2]+".x", f[2]+".next", f[2]+".id")
		}
	}
	return names
}

func locationsOf(t *testing.T, program string, names []string) (out []string) {
	t.Helper()
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range names {
		l := readLayout(f, "program", []string{name}, debugfiles.Known(plan.Settings{}))
		out = append(out, fmt.Sprintf("%+v %v", l.found, l.err))
	}
	return out
}
