package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// layers lists what each part of the tree may import from the others, directly or
// indirectly. A part is a folder and everything below it; the longest match applies.
var layers = []struct {
	part string
	may  []string
}{
	{"parser", nil},
	{"parser/spelling", nil},
	{"planner", []string{"parser"}},
	{"planner/types", nil},
	{"planner/plan", []string{"planner/types", "parser/spelling"}},
	{"planner/catalog", []string{"planner/types"}},
	{"operators", []string{"planner/plan", "planner/types", "parser/spelling"}},
	{"operators/batch", []string{"planner/types"}},
	{"probes", []string{"parser/spelling", "planner/plan", "planner/types", "planner/catalog", "operators/batch"}},
	{"server", []string{"parser", "planner", "operators", "probes"}},
	{"server/cmd/endoscoped", []string{"server", "parser", "planner", "operators", "probes", "client/fleet"}},
	{"server/wire", []string{"operators/batch", "planner/types"}},
	{"client", []string{"parser", "planner", "operators", "server/wire"}},
	{"client/cmd/endoscope", []string{"client", "server", "parser", "planner", "operators", "probes"}},
}

// forTests is the shared test support of all parts. No product package imports it.
const forTests = "probes/testenv"

// TestImports checks the architecture: a package depends only on the parts that its
// own part may know.
func TestImports(t *testing.T) {
	testenv.Long(t)
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}: {{join .Deps " "}}`, "endoscope/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for line := range strings.Lines(string(out)) {
		pkg, deps, _ := strings.Cut(strings.TrimSpace(line), ":")
		pkg, ok := strings.CutPrefix(pkg, "endoscope/")
		if !ok {
			continue
		}
		packages++
		rule := -1
		for i, l := range layers {
			if within(pkg, l.part) && (rule < 0 || len(l.part) > len(layers[rule].part)) {
				rule = i
			}
		}
		if rule < 0 {
			t.Errorf("%s is in no part of the architecture", pkg)
			continue
		}
		for _, dep := range strings.Fields(deps) {
			dep, ok := strings.CutPrefix(dep, "endoscope/")
			if ok && within(dep, forTests) && !within(pkg, forTests) {
				t.Errorf("%s is for tests only, and %s imports it", dep, pkg)
			}
			if !ok || within(dep, layers[rule].part) {
				continue
			}
			allowed := false
			for _, m := range layers[rule].may {
				allowed = allowed || within(dep, m)
			}
			if !allowed {
				t.Errorf("%s must not know %s", pkg, dep)
			}
		}
	}
	if packages < 10 {
		t.Errorf("only %d packages seen", packages)
	}
}

// TestSeeds checks that the property tests of every package use the same cases in
// every run.
func TestSeeds(t *testing.T) {
	testenv.Long(t)
	const rapid, seeds = "pgregory.net/rapid", "endoscope/operators/optest/seeds"
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}: {{join .TestImports " "}} {{join .XTestImports " "}}`, "endoscope/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	drawing := 0
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), ":")
		if all := strings.Fields(imports); slices.Contains(all, rapid) && pkg != seeds {
			drawing++
			if !slices.Contains(all, seeds) {
				t.Errorf("the tests of %s import %s and not %s", pkg, rapid, seeds)
			}
		}
	}
	if drawing < 10 {
		t.Errorf("only %d packages draw cases", drawing)
	}
}

// testSupport are the packages imported only by tests: the naive engine, generators
// of random cases, and shared helpers.
var testSupport = []string{
	"operators/optest", "operators/expr/exprtest", "operators/internal", "operators/encoders/internal",
}

// TestOracleStaysInTests checks that no production package imports test support.
func TestOracleStaysInTests(t *testing.T) {
	testenv.Long(t)
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}: {{join .Deps " "}}`, "endoscope/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	supporting := func(pkg string) bool {
		return slices.ContainsFunc(testSupport, func(s string) bool { return within(pkg, "endoscope/"+s) })
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		pkg, deps, _ := strings.Cut(strings.TrimSpace(line), ":")
		if supporting(pkg) {
			found++
			continue
		}
		for _, dep := range strings.Fields(deps) {
			if supporting(dep) {
				t.Errorf("%s is production code and imports %s", pkg, dep)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d packages of test support seen", found)
	}
}

func within(pkg, part string) bool { return pkg == part || strings.HasPrefix(pkg, part+"/") }

// TestRoomsAreSmall holds that a package has at most 25 files beside its tests, and a
// doc.go that says what it is for. Generated files do not count.
func TestRoomsAreSmall(t *testing.T) {
	testenv.Long(t)
	const most = 25
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}|{{.Doc}}|{{join .GoFiles " "}}`, "endoscope/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		part := strings.SplitN(strings.TrimSpace(line), "|", 3)
		if len(part) < 3 || part[2] == "" {
			continue // tests only
		}
		files := slices.DeleteFunc(strings.Fields(part[2]), func(f string) bool {
			return strings.HasSuffix(f, "_bpfel.go") || strings.HasSuffix(f, ".pb.go")
		})
		if len(files) > most {
			t.Errorf("%s has %d files beside its tests, at most %d are allowed", part[0], len(files), most)
		}
		if part[1] == "" {
			t.Errorf("%s does not say what it is for", part[0])
		}
	}
}
