package graph_test

import (
	"path/filepath"
	"testing"

	"endoscope/operators/optest"
)

// TestScripts runs testdata: what statements give, step by step.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/script/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { optest.RunScript(t, path, fast{}, planOf) })
	}
}
