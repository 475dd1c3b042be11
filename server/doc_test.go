package server

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLocksAreListed: each lock of this package and of those below it that have several
// has its place in the order that the package's doc.go gives, which has no other.
func TestLocksAreListed(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, dir := range append([]string{"."}, dirsOf(entries)...) {
		locks, doc := locksOf(t, dir)
		all += len(locks)
		_, table, ok := strings.Cut(doc, "Locks are taken in this order")
		if !ok {
			if len(locks) > 1 && dir != "access" && dir != "flight" { // whose locks are never held together
				t.Errorf("%s: %d locks, and doc.go does not say in which order they are taken", dir, len(locks))
			}
			continue
		}
		listed := map[string]bool{}
		for _, line := range regexp.MustCompile(`(?m)^\t([A-Za-z]+\.[A-Za-z]+)\b`).FindAllStringSubmatch(table, -1) {
			listed[line[1]] = true
		}
		for name := range locks {
			if !listed[name] {
				t.Errorf("%s: doc.go does not say when %s is taken", dir, name)
			}
			delete(listed, name)
		}
		for name := range listed {
			t.Errorf("%s: there is no lock %s", dir, name)
		}
	}
	if all < 30 {
		t.Errorf("only %d locks were found", all)
	}
}

func dirsOf(entries []os.DirEntry) (dirs []string) {
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}

// locksOf returns the fields of a package's types that are locks, and its documentation.
func locksOf(t *testing.T, dir string) (locks map[string]bool, doc string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := gotoken.NewFileSet()
	locks = map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) == "doc.go" {
			doc = f.Doc.Text()
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range st.Fields.List {
					x, ok := field.Type.(*ast.SelectorExpr)
					if !ok || x.Sel.Name != "Mutex" && x.Sel.Name != "RWMutex" {
						continue
					}
					for _, n := range field.Names {
						locks[spec.Name.Name+"."+n.Name] = true
					}
				}
			}
			return true
		})
	}
	return locks, doc
}
