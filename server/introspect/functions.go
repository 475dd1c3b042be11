package introspect

import (
	"path/filepath"
	"strconv"

	"endoscope/planner/plan"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// Functions lists the functions of the session's target: those of the main
// executable of its first process.
func (p Program) Functions() ([]elf.Function, error) {
	m, err := p.Module()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	fs := make([]elf.Function, 0, m.Len())
	for _, f := range m.All() {
		fs = append(fs, f)
	}
	return fs, nil
}

// Module is the main executable of the session's target.
func (p Program) Module() (*elf.Module, error) {
	t := p.Target
	if t.IsZero() {
		return nil, (&plan.Error{Msg: "no program is selected"}).WithHint("run USE 'name', or start with -p PID")
	}
	ps, err := process.Resolve(t)
	if err != nil {
		return nil, err
	}
	if len(ps) == 0 {
		f, err := process.OpenExe(t.Exes[0])
		if err != nil {
			return nil, err
		}
		return p.Modules.Open(f, filepath.Base(t.Exes[0]))
	}
	maps, err := process.Modules(ps[0].PID)
	if err != nil {
		return nil, err
	}
	for _, m := range maps {
		if m.Path == ps[0].Exe {
			f, err := process.OpenModule(ps[0].PID, m)
			if err != nil {
				return nil, err
			}
			return p.Modules.Open(f, filepath.Base(m.Path))
		}
	}
	return nil, &plan.Error{Msg: "the executable of process " + strconv.Itoa(ps[0].PID) + " cannot be read"}
}
