package variable

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// subject is a process with the variables observed in it.
type subject struct {
	process   process.Process
	image     image // image that has the variables
	variables []observed
	watch     watch
	writers   writers
	traced    []tracedPart // files whose functions have the variables
}

// observed is a variable of a process.
type observed struct {
	name   string // name as in the query
	module string
	addr   uint64 // address in the process
	follow []step
	form   form
}

// errNoVariable precedes the name in errors about a process that has no such
// variable.
var errNoVariable = errors.New("has no variable")

// bareError is returned if a variable was not found and some module has no
// debug information.
type bareError struct {
	error
	modules []string
}

func (e *bareError) Unwrap() error { return e.error }

// errUnmapped is returned for a process that has none of the modules mapped.
var errUnmapped = errors.New("not loaded")

// unmapped returns an error if a process has mapped none of the modules.
func unmapped(modules []string, text []process.Mapping) error {
	verb := "is"
	if len(modules) > 1 {
		verb = "are"
	}
	err := fmt.Errorf("%s %s %w", strings.Join(modules, ", "), verb, errUnmapped)
	var names []string
	for _, m := range text {
		if base := filepath.Base(m.Path); m.Inode != 0 && !slices.Contains(names, base) {
			names = append(names, base)
		}
	}
	for _, module := range modules {
		if near := plan.Nearest(module, names, 3); len(near) > 0 {
			return fmt.Errorf("%w; loaded is %s", err, strings.Join(near, ", "))
		}
	}
	return err
}

// newSubject finds variables in a process: in the named modules, or in its
// executable if none are named.
func newSubject(p process.Process, names, modules []string, known *layouts) (*subject, error) {
	missing := slices.Clone(names)
	var bare []string
	s, err := searchModules(p, modules, func(s *subject, m process.Mapping, base string) error {
		found, described, err := findIn(p.PID, m, missing, known)
		if err != nil {
			return err
		}
		if !described {
			bare = append(bare, base)
		}
		s.variables = append(s.variables, found...)
		missing = slices.DeleteFunc(missing, func(name string) bool {
			return slices.ContainsFunc(found, func(o observed) bool { return o.name == name })
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.writers.image = s.image
	if len(missing) > 0 {
		err := fmt.Errorf("%s %w %s", strings.Join(orExe(modules, p), ", "), errNoVariable, missing[0])
		if len(bare) > 0 {
			err = &bareError{err, bare}
		}
		return nil, &nameError{missing[0], err}
	}
	return s, nil
}

// newTraced is newSubject for the local variables that t observes.
func newTraced(p process.Process, modules []string, t *tracer) (*subject, error) {
	s, err := searchModules(p, modules, func(s *subject, m process.Mapping, base string) error {
		part, err := s.trace(m, base, t)
		if err == nil {
			s.traced = append(s.traced, part)
		} else if errors.Is(err, errNoFunction) {
			return nil
		}
		return err
	})
	if err == nil && len(s.traced) == 0 {
		return nil, errNoFunction
	}
	return s, err
}

// searchModules calls visit with each file of the named modules that a process
// executes, or with its executable if none are named, and the subject, which it
// then returns.
func searchModules(p process.Process, modules []string, visit func(s *subject, m process.Mapping, base string) error) (*subject, error) {
	s := &subject{process: p}
	var err error
	if s.image, err = loadedImage(p.PID); err != nil {
		return nil, err
	}
	text, err := process.Text(p.PID)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, m := range text {
		base := filepath.Base(m.Path)
		if m.Inode == 0 || seen[m.Path] || len(modules) == 0 && m.Path != p.Exe || len(modules) > 0 && !slices.Contains(modules, base) {
			continue
		}
		seen[m.Path] = true
		if err := visit(s, m, base); err != nil {
			return nil, err
		}
	}
	switch {
	case !s.image.runs(p.PID):
		return nil, errNoImage
	case len(seen) == 0:
		return nil, unmapped(orExe(modules, p), text)
	}
	return s, nil
}

func (s *subject) trace(m process.Mapping, base string, t *tracer) (part tracedPart, err error) {
	f, err := process.OpenModule(s.process.PID, m)
	if err != nil {
		return part, err
	}
	defer f.Close()
	part.mapping = m
	if part.file, err = t.file(f, base); err != nil {
		return part, err
	}
	file, err := elf.NewFile(f)
	if err != nil {
		return part, fmt.Errorf("%s is damaged: %w", base, err)
	}
	var progs []elf.ProgHeader
	for _, p := range file.Progs {
		progs = append(progs, p.ProgHeader)
	}
	var ok bool
	if part.bias, ok = biasOf(progs, m); !ok {
		return part, fmt.Errorf("%s is not mapped as its headers say", base)
	}
	return part, nil
}

func orExe(modules []string, p process.Process) []string {
	if len(modules) == 0 {
		return []string{filepath.Base(p.Exe)}
	}
	return modules
}

// findIn finds variables in the module that m maps. described reports whether
// it has debug information.
func findIn(pid int, m process.Mapping, names []string, known *layouts) (found []observed, described bool, err error) {
	f, err := process.OpenModule(pid, m)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	base := filepath.Base(m.Path)
	l, err := known.layoutOf(f, base, names)
	if err != nil {
		return nil, false, err
	}
	bias, ok := biasOf(l.progs, m)
	if !ok {
		return nil, false, fmt.Errorf("%s is not mapped as its headers say", base)
	}
	for _, v := range l.found {
		v.module = base
		v.addr += bias
		found = append(found, v)
	}
	return found, !l.bare, nil
}

// biasOf returns the difference between addresses in a process and in a file
// whose code it has mapped.
func biasOf(progs []elf.ProgHeader, m process.Mapping) (uint64, bool) {
	for _, p := range progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && m.Offset+4095 >= p.Off && m.Offset < p.Off+p.Filesz {
			return m.Start - (p.Vaddr + m.Offset - p.Off), true
		}
	}
	return 0, false
}

// memory reads memory of the process; it returns nil if part of it is
// unreadable, or if the process executes something else.
func (s *subject) memory(addr uint64, n int) []byte {
	return s.image.read(s.process.PID, addr, n)
}
