package introspect

import (
	"os"
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// Program is the target of a session.
type Program struct {
	Target  plan.Target
	Modules *elf.Cache
}

// SymbolMemory returns an upper bound of the bytes that reading the symbols of the target's
// executables allocates, those of one file once.
func (p Program) SymbolMemory() (bytes int64) {
	add := func(f *os.File, err error) {
		if err != nil {
			return // whoever needs it reports that
		}
		bytes += elf.LoadMemory(f)
		f.Close()
	}
	running, err := process.Resolve(p.Target)
	if err != nil {
		return 0
	}
	for _, path := range slices.Concat(p.Target.Exes, p.Target.Files) {
		add(process.OpenExe(path))
	}
	if len(p.Target.Files) > 0 {
		return bytes // their functions alone are observed
	}
	seen := map[string]bool{}
	for _, proc := range running {
		if seen[proc.Exe] || slices.Contains(p.Target.Exes, proc.Exe) {
			continue
		}
		seen[proc.Exe] = true
		maps, err := process.Modules(proc.PID)
		if err != nil {
			continue
		}
		for _, m := range maps {
			if m.Path == proc.Exe {
				add(process.OpenModule(proc.PID, m))
				break
			}
		}
	}
	return bytes
}
