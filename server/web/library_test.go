package web

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/parser"
	"endoscope/probes/testenv"
)

func TestLibraryHasTheTenQuestions(t *testing.T) {
	questions := map[string]bool{}
	known := []string{"c", "go", "java", "python", "node", "ruby", "php", "postgresql", "any"}
	for _, e := range entries() {
		number, _, _ := strings.Cut(e.Name, "-")
		questions[number] = true
		if e.Question == "" || len(e.Languages) == 0 {
			t.Errorf("%s: no question or language", e.Name)
		}
		for _, l := range e.Languages {
			if !slices.Contains(known, l) {
				t.Errorf("%s: language %q", e.Name, l)
			}
		}
		pieces := parser.Split(e.Text)
		if len(pieces) == 0 {
			t.Errorf("%s: no statement", e.Name)
		}
		for _, p := range pieces {
			if _, err := parser.Parse(p.Text); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
	}
	for _, n := range []string{"01", "02", "03", "04", "05", "06", "07", "08", "09", "10"} {
		if !questions[n] {
			t.Errorf("question %s is missing", n)
		}
	}
}

// TestModulesHaveTheirTypes checks the types that the comments of the page's modules name.
func TestModulesHaveTheirTypes(t *testing.T) {
	testenv.Long(t)
	tsc := testenv.NeedProgram(t, "tsc")
	files, err := filepath.Glob("assets/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	config, err := json.Marshal(map[string]any{"files": files, "compilerOptions": map[string]any{
		"checkJs": true, "allowJs": true, "noEmit": true, "strict": true, "noUnusedLocals": true, "target": "es2023", "module": "es2022",
		"moduleResolution": "bundler", "lib": []string{"es2023", "dom", "dom.iterable"}, "types": []string{}}})
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(t.TempDir(), "tsconfig.json")
	if err := os.WriteFile(project, config, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tsc, "--project", project).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
