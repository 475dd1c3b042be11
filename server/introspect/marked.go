package introspect

import (
	"fmt"
	"os"
	"path/filepath"

	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/probes/usdt"
	"endoscope/server/answer"
)

// marked is a place that the author of a program or library has marked (USDT).
type marked struct {
	usdt.Probe
	module string
}

// Marked lists the marked places of the session's target: of its executable,
// and of the libraries that its first process has mapped. Unreadable files are
// skipped.
func (p Program) Marked() ([]marked, error) {
	t := p.Target
	running, err := process.Resolve(t)
	if err != nil {
		return nil, err
	}
	if len(running) == 0 {
		if len(t.Exes) == 0 {
			return nil, nil
		}
		f, err := process.OpenExe(t.Exes[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return markedIn(nil, f, t.Exes[0]), nil
	}
	mappings, err := process.Modules(running[0].PID)
	if err != nil {
		return nil, err
	}
	var out []marked
	for _, m := range mappings {
		f, err := process.OpenModule(running[0].PID, m)
		if err != nil {
			continue
		}
		out = markedIn(out, f, m.Path)
		f.Close()
	}
	return out, nil
}

func markedIn(out []marked, f *os.File, path string) []marked {
	list, _ := usdt.Probes(f)
	for _, p := range list {
		out = append(out, marked{p, filepath.Base(path)})
	}
	return out
}

// describeMarked returns the result of DESCRIBE FUNCTION for a marked place;
// nil if the target has none of this name.
func (p Program) describeMarked(name string) (*answer.Table, error) {
	all, err := p.Marked()
	if err != nil {
		return nil, err
	}
	rel := answer.NewTable(answer.Text("function_name"), answer.Text("module"), answer.Text("address"), answer.Text("arguments"), answer.Text("entry"))
	for _, m := range all {
		if m.String() != name {
			continue
		}
		entry := m.Site.Method + ": " + m.Site.Insn()
		if m.Refused != nil {
			entry = "cannot be probed: " + m.Refused.Error()
		}
		rel.Add(types.Str(name), types.Str(m.module), types.Str(fmt.Sprintf("%#x", m.Site.Addr)), types.Str(m.Signature()), types.Str(entry))
	}
	if len(rel.Rows) == 0 {
		return nil, nil
	}
	return rel, nil
}
