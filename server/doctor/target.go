package doctor

import (
	"errors"
	"fmt"

	"endoscope/planner/plan"
	"endoscope/probes/debugfiles"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

const ofOtherUser = "be the user of the process, or have CAP_SYS_PTRACE"

// Target checks what can be known of a process. open opens the module of its executable.
func Target(p process.Process, open func() (*elf.Module, error)) []Check {
	checks := []Check{{Name: "process", Verdict: OK, Found: fmt.Sprintf("%s, pid %d", p.Comm, p.PID)}, memory(p.PID), root(p.PID)}
	m, err := open()
	if err != nil {
		c := Check{Name: "executable", Verdict: No, Found: err.Error(), Remedy: ofOtherUser}
		if e, ok := errors.AsType[*plan.Error](err); ok && e.Hint != "" {
			c.Remedy = e.Hint
		}
		checks = append(checks, c)
	} else {
		defer m.Close()
		checks = append(checks, Check{Name: "executable", Verdict: OK, Found: p.Exe}, functions(m), debugInformation(m))
	}
	for i := range checks {
		checks[i].Kind = KindTarget
	}
	return checks
}

// memory reports whether the process can be read: its stacks, its variables and its code.
func memory(pid int) Check {
	modules, err := process.Modules(pid)
	if err != nil || len(modules) == 0 || process.ReadMemory(pid, make([]byte, 1), modules[0].Start) == 0 {
		return Check{Name: "memory", Verdict: No, Found: "cannot be read", Remedy: ofOtherUser}
	}
	return Check{Name: "memory", Verdict: OK, Found: "can be read"}
}

// root says where paths of the process are looked up.
func root(pid int) Check {
	c := Check{Name: "root", Verdict: OK, Found: "this one's"}
	if !process.SharesRoot(pid) {
		c.Found = fmt.Sprintf("its own: files of the program are those in /proc/%d/root", pid)
		if in := process.ContainerOf(pid); in != nil && in.Called() != "/" {
			c.Found += ", container " + in.Called()
		}
	}
	return c
}

func functions(m *elf.Module) Check {
	c := Check{Name: "functions", Verdict: OK, Found: fmt.Sprintf("%d", m.Len())}
	_, other, stripped := m.Stripped()
	if !stripped {
		return c
	}
	c.Verdict, c.Found = Limited, c.Found+", and only those that it exports have names"
	c.Remedy = debugRemedy(m)
	if other != "" {
		c.Remedy = other + " is of another build"
	}
	return c
}

func debugInformation(m *elf.Module) Check {
	d, err := m.DebugInfo()
	switch {
	case err == nil && d.Separate != "":
		return Check{Name: "debug information", Verdict: OK, Found: d.Separate}
	case err == nil:
		return Check{Name: "debug information", Verdict: OK, Found: "its own"}
	case !errors.Is(err, elf.ErrNoDebugInfo):
		return Check{Name: "debug information", Verdict: No, Found: err.Error(), Remedy: debugRemedy(m)}
	}
	return Check{Name: "debug information", Verdict: Limited, Found: "none: arguments have no names, and only plain numbers of the symbol table are variables", Remedy: debugRemedy(m)}
}

// debugRemedy says where the debug file of a module is.
func debugRemedy(m *elf.Module) string {
	switch where := debugfiles.Where(m); {
	case where != "":
		return "its debug file: " + where
	case m.BuildID() != "":
		return "compile it with -g, or put the debug file of build-id " + m.BuildID() + " below /usr/lib/debug (SET debug_directory, debuginfod)"
	}
	return "compile it with -g"
}
