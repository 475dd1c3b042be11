package server

import (
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/selection"
)

// programs replaces a target's condition by the files that satisfy it, and the names of
// libraries by the paths at which the loader finds them.
func (s *session) programs(t plan.Target) (plan.Target, error) {
	t.Viewer = s.may.Sees() // the planner's targets have none yet
	if t.Matching != nil {
		match, err := matchFunction(t.Matching)
		if err != nil {
			return t, err
		}
		search, into := process.Matching, &t.Exes
		if t.By == "module" {
			search, into = process.MatchingFiles, &t.Files
		}
		if *into, err = search(t, func(text string) (bool, error) { return match(text, "", "") }); err != nil {
			return t, err
		}
		t.Matching, t.By, t.Found = nil, "", true
	}
	t.Files = slices.Clone(t.Files)
	for i, name := range t.Files {
		if strings.HasPrefix(name, "/") {
			t.Files[i] = filepath.Clean(name)
			continue
		}
		path := selection.FindLibrary(name)
		if !t.Viewer.Everything() && !isLoaded(t, path) { // the viewer must not learn whether the file exists
			return t, selection.RefuseTarget(t, "no process has loaded %s", name).WithHint("SHOW PROCESSES lists those that you may observe")
		}
		if path == "" || strings.Contains(name, "/") {
			return t, selection.RefuseTarget(t, "no library is called '%s' in the folders that the loader searches", name).
				WithHint("module = '/path/of/%s', or name a process that has loaded it: process = 'name'", filepath.Base(name))
		}
		t.Files[i] = path
	}
	t.Viewer = nil
	return t, nil
}

// isLoaded reports whether a process that t's viewer may observe has mapped the code of a file.
func isLoaded(t plan.Target, path string) bool {
	if path == "" {
		return false
	}
	_, err := process.Resolve(plan.Target{Files: []string{path}, Viewer: t.Viewer})
	return err == nil
}
