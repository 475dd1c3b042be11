package server

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLocksAreListed: each lock of the package has its place in the order that
// doc.go gives, and that has no other.
func TestLocksAreListed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, locks, doc := gotoken.NewFileSet(), map[string]bool{}, ""
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if name == "doc.go" {
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
	_, table, ok := strings.Cut(doc, "Locks are taken in this order")
	if !ok || len(locks) < 20 {
		t.Fatalf("%d locks were found, and doc.go lists any: %v", len(locks), ok)
	}
	listed := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\t([A-Za-z]+\.[a-z]+)\b`).FindAllStringSubmatch(table, -1) {
		listed[line[1]] = true
	}
	for name := range locks {
		alias := strings.Replace(name, "inForce.", "gating.", 1) // which embeds it
		if !listed[alias] {
			t.Errorf("doc.go does not say when %s is taken", name)
		}
		delete(listed, alias)
	}
	for name := range listed {
		t.Errorf("there is no lock %s", name)
	}
}
