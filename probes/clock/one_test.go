package clock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// others are the uses of another clock, whose times do not become part of a
// tuple.
var others = map[string]string{
	"operators/expr/time.go":      "Clock's value before the engine has set it; and times that are written as text",
	"operators/optest/rowcast.go": "times that are written as text",
	"server/model.go":             "when a model was made, which outlives the machine's boot",
}

// TestOneClock: every time that is compared with times of events comes from
// this package. The wall clock may be set between two readings, which a test
// cannot do.
func TestOneClock(t *testing.T) {
	seen, files := map[string]bool{}, 0
	root := filepath.Join("..", "..")
	for _, part := range []string{"operators", "probes", "server"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
			// Directories below server use the wall clock for tokens and
			// certificates.
			if err != nil || d.IsDir() && (d.Name() == "testdata" || part == "server" && filepath.Base(path) != part) {
				if err == nil {
					err = fs.SkipDir
				}
				return err
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			files++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(root, path)
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Unix", "UnixNano", "UnixMicro", "UnixMilli"}, s.Sel.Name) {
					if x, ok := s.X.(*ast.Ident); ok && (x.Name == "time" || x.Name == "unix") {
						return true // to a time, or the system's
					}
					if seen[name] = true; others[name] == "" {
						t.Errorf("%s: the number is of the wall clock: clock.Now is what events have", set.Position(s.Pos()))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were seen", files)
	}
	for name, what := range others {
		if !seen[name] {
			t.Errorf("%s has no longer what it was left out for: %s", name, what)
		}
	}
}
