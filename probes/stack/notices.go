package stack

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"

	"endoscope/probes/lang/interpreter"
	"endoscope/probes/lang/perfmap"
	"endoscope/probes/process"
)

// notices returns notices about processes whose stacks will not show the functions
// that their users wrote, with remedies.
func notices(found []process.Process, java string) (out []string) {
	for _, p := range found {
		text, err := process.Text(p.PID)
		if err != nil {
			continue // it has ended
		}
		for i, m := range text {
			if m.Inode == 0 {
				continue
			}
			var why string
			switch name := filepath.Base(m.Path); {
			case name == "libjvm.so" && java == JavaMaps:
				why = "runs Java, whose methods have names as far as they are compiled: interpreted ones are called Interpreter, and those compiled into others are left out"
			case name == "libjvm.so" && java != JavaDump:
				why = "runs Java, its stacks show only the virtual machine (SET java_stacks = 'threaddump' shows Java; the machine halts for some 0.1 ms at each sample. With 'perfmap' it does not, if it was started with -XX:+PreserveFramePointer)"
			case (name == "node" || name == "nodejs") && m.Path == p.Exe:
				if _, err := perfmap.Open(p.PID); err != nil {
					why = "runs JavaScript and does not name its compiled functions (it does if started as node --perf-basic-prof)"
				}
			case languageOf(m.Path) != nil:
				why = interpreterRemark(p.PID, m)
			case m.Path == p.Exe && i == 0:
				why = goRemark(p.PID, m)
			}
			if why != "" {
				out = append(out, fmt.Sprintf("process %d (%s) %s", p.PID, p.Comm, why))
			}
		}
	}
	return out
}

// interpreterRemark is the remark on an interpreter of an unknown version.
func interpreterRemark(pid int, m process.Mapping) string {
	f, err := process.OpenModule(pid, m)
	if err != nil {
		return ""
	}
	defer f.Close()
	var unknown *interpreter.ErrVersion
	if _, err := languageOf(m.Path).ReadLayout(f, m.Path); errors.As(err, &unknown) {
		return fmt.Sprintf("runs %s, its stacks show only the interpreter: %v", unknown.Language, err)
	}
	return ""
}

// goRemark is the remark on Go programs without symbols: their functions still have
// names, from the table that Go itself needs.
func goRemark(pid int, m process.Mapping) string {
	file, err := process.OpenModule(pid, m)
	if err != nil {
		return ""
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil || f.Section(".gopclntab") == nil && f.Section(".data.rel.ro.gopclntab") == nil {
		return ""
	}
	if f.Section(".symtab") == nil || f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil {
		return "is a Go program without debug information (-ldflags=-s or -w): goroutines are seen on their threads only, not where they wait"
	}
	return ""
}
