package server

import (
	"testing"

	"endoscope/planner/catalog"
)

// TestProvidersServeCatalog checks that each stream that users see can be acquired.
func TestProvidersServeCatalog(t *testing.T) {
	e, err := New(Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, s := range catalog.Streams {
		if !s.Later && e.providers[s.Name] == nil {
			t.Errorf("nothing acquires %s", s.Name)
		}
	}
}
