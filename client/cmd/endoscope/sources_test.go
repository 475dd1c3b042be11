package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// contractPackage declares Source.
const contractPackage = "endoscope/probes"

// TestSourcesHaveOneContract checks that the capabilities of a source are described
// by its Info only: nothing asserts the type of a probes.Source, or declares an
// interface with more methods.
func TestSourcesHaveOneContract(t *testing.T) {
	testenv.Long(t)
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard", "endoscope/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	type pkg struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		Standard                bool
	}
	var own []pkg
	export := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		export[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, "endoscope/") {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	contract, err := imports.Import(contractPackage)
	if err != nil {
		t.Fatal(err)
	}
	source := contract.Scope().Lookup("Source").Type()
	checked := 0
	for _, p := range own {
		if p.ImportPath == contractPackage {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		if _, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info); err != nil {
			t.Fatal(err)
		}
		checked++
		for _, at := range breaches(files, info, source) {
			t.Errorf("%s", fset.Position(at.Pos()))
		}
	}
	if checked < 30 {
		t.Errorf("only %d packages were checked", checked)
	}
}

// breaches returns the type assertions and switches on a source, and the interfaces
// that contain all methods of one.
func breaches(files []*ast.File, info *types.Info, source types.Type) (out []ast.Node) {
	methods := source.Underlying().(*types.Interface)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeAssertExpr: // includes those of type switches
				if types.Identical(info.Types[n.X].Type, source) {
					out = append(out, n)
				}
			case *ast.InterfaceType:
				if i, ok := info.Types[n].Type.(*types.Interface); ok && types.Implements(i, methods) {
					out = append(out, n)
				}
			}
			return true
		})
	}
	return out
}

// TestBreachesAreFound checks that breaches finds each kind of violation.
func TestBreachesAreFound(t *testing.T) {
	const text = `package p
type Source interface { Info() int; Stop() error }
type Stopper interface { Stop() error }
type more interface { Source; Extra() }
type same interface { Info() int; Stop() error; Again() }
func f(s Source, x any) {
	_ = s.(more)
	switch s.(type) { case interface{ Extra() }: }
	_ = x.(Source)
}`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	p, err := (&types.Config{}).Check("p", fset, []*ast.File{f}, info)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, n := range breaches([]*ast.File{f}, info, p.Scope().Lookup("Source").Type()) {
		lines = append(lines, fset.Position(n.Pos()).Line)
	}
	if want := []int{2, 4, 5, 7, 8}; !slices.Equal(lines, want) {
		t.Errorf("found in lines %v, want %v", lines, want)
	}
}
