package entities

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// library reads and caches, for modules, their types and which functions
// construct and destroy objects.
type library struct {
	cache *elf.Cache

	mu        sync.Mutex             // guards the fields below
	known     map[string][]elf.Class // by file
	unread    map[string]bool        // files that could not be read while a process had them mapped
	structors map[string]structor    // by function, of executables
	programs  map[string]moduleTypes // executables by path
	// trivial is true if some class has constructors and no destructor: the end
	// of its objects is known only by that of their memory.
	trivial bool
}

func newLibrary(cache *elf.Cache) *library {
	return &library{cache: cache, known: map[string][]elf.Class{}, unread: map[string]bool{}, structors: map[string]structor{}, programs: map[string]moduleTypes{}}
}

// executable records the constructors and destructors of a program; ok is false
// for Go programs, which have none.
func (l *library) executable(f *os.File, path string) (ok bool, err error) {
	m, err := l.cache.Open(f, path)
	if err != nil {
		return false, err
	}
	defer m.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	classes, destroyed := map[string]bool{}, map[string]bool{}
	for _, fn := range m.All() {
		for _, name := range append([]string{fn.Mangled}, fn.Aliases...) {
			if s := structorOf(fn.Name, fn.Class, name); s != method {
				l.structors[fn.Name] = s
				classes[fn.Class] = true
				destroyed[fn.Class] = destroyed[fn.Class] || s == destructor
				break
			}
		}
	}
	for class := range classes {
		l.trivial = l.trivial || !destroyed[class]
	}
	for _, c := range m.Classes().All() {
		delete(classes, c.Name)
	}
	l.known[path] = nil
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		l.known[path] = append(l.known[path], elf.Class{Name: name})
	}
	l.programs[path] = moduleTypes{file: path, classes: append(m.Classes().All(), l.known[path]...)}
	return !m.HasGo(), nil
}

// executed returns what is known of an executable without reading a process.
func (l *library) executed(path string) (m moduleTypes, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok = l.programs[path]
	return m, ok
}

// modulesOf returns the modules that a process has mapped, with their types: modules
// with run-time type information and, for its executable, classes with
// constructors or destructors. unread is the number of files that could not be
// read and were not counted before; the next call tries them again. It reads
// files, which may take long.
func (l *library) modulesOf(pid int) (out []moduleTypes, unread int, err error) {
	mappings, err := process.Modules(pid)
	if err != nil {
		return nil, 0, err
	}
	if len(mappings) == 0 {
		return nil, 0, fmt.Errorf("process %d has ended", pid) // or is about to end: it has no memory any more
	}
	out = make([]moduleTypes, 0, len(mappings))
	for _, mp := range mappings {
		if mp.Inode == 0 {
			continue
		}
		key := fmt.Sprintf("%d:%d", mp.Dev, mp.Inode)
		l.mu.Lock()
		classes, ok := l.known[key]
		l.mu.Unlock()
		if !ok {
			// Not under mu: executed must not wait for file reads.
			if classes, err = l.read(pid, mp); err != nil {
				if _, runs := process.Lookup(pid); !runs {
					return nil, unread, err
				}
				if l.recordUnreadable(key) {
					unread++
				}
				continue
			}
			l.mu.Lock()
			l.known[key] = classes
			l.mu.Unlock()
		}
		out = append(out, moduleTypes{file: key, classes: classes})
	}
	return out, unread, nil
}

// recordUnreadable records that a file could not be read, and reports whether that is new.
func (l *library) recordUnreadable(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.unread[key]
	l.unread[key] = true
	return first
}

// read returns the types of a file.
func (l *library) read(pid int, mp process.Mapping) ([]elf.Class, error) {
	f, err := process.OpenModule(pid, mp)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := l.cache.Open(f, mp.Path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	all := m.Classes().All()
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(all, l.known[mp.Path]...), nil
}
