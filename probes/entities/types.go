package entities

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"endoscope/probes/elf"
)

// class is a type that lives: some module of some process has it.
type class struct {
	id, name string
	bases    []string
	users    int // modules of processes
	number   int // in order of creation
}

// moduleTypes are the types of a file that is mapped.
type moduleTypes struct {
	file    string // as it is told from others
	classes []elf.Class
}

// map_ takes in what a program has mapped: types of modules that came are created,
// and then loaded, so that each may refer to each; those of modules that went and
// that nobody else has are reclaimed.
func (w *world) map_(p *program, on *thread, now []moduleTypes) {
	here := map[string]bool{}
	var fresh []*class
	for _, m := range now {
		here[m.file] = true
		if _, ok := p.modules[m.file]; ok {
			continue
		}
		names := make([]string, 0, len(m.classes))
		for _, c := range m.classes {
			names = append(names, c.Name)
			if w.types[c.Name] == nil {
				fresh = append(fresh, w.createType(p, on, c))
			}
			w.types[c.Name].users++
		}
		p.modules[m.file] = names
	}
	for _, c := range fresh {
		w.loadType(p, on, c)
	}
	for _, file := range slices.Sorted(maps.Keys(p.modules)) {
		if here[file] {
			continue
		}
		for _, name := range p.modules[file] {
			w.disuse(p, on, name)
		}
		delete(p.modules, file)
	}
}

// byUse is the module of types that are known by being used.
const byUse = "used"

// use takes in that a method of a class is called.
func (w *world) use(p *program, on *thread, name string) {
	if name == "" || p.used[name] {
		return
	}
	p.used[name] = true
	p.modules[byUse] = append(p.modules[byUse], name)
	c := w.types[name]
	if c == nil {
		c = w.createType(p, on, elf.Class{Name: name})
		w.loadType(p, on, c)
	}
	c.users++
}

// unload takes in that a class is gone which was known by being used.
func (w *world) unload(p *program, on *thread, name string) {
	if !p.used[name] {
		return
	}
	delete(p.used, name)
	p.modules[byUse] = slices.DeleteFunc(p.modules[byUse], func(other string) bool { return other == name })
	w.disuse(p, on, name)
}

// disuse is of a type that one module less has.
func (w *world) disuse(p *program, on *thread, name string) {
	c := w.types[name]
	if c.users--; c.users == 0 {
		delete(w.types, name)
		w.event(p, on, row{category: typeCategory, event: reclaim, entity: c.id, name: c.name})
	}
}

func (w *world) createType(p *program, on *thread, of elf.Class) *class {
	w.lives[of.Name]++
	w.typed++
	c := &class{id: of.Name, name: of.Name, bases: of.Bases, number: w.typed}
	if n := w.lives[of.Name]; n > 1 {
		c.id += "#" + strconv.Itoa(n)
	}
	w.types[of.Name] = c
	w.event(p, on, row{category: typeCategory, event: create, entity: c.id, name: c.name})
	return c
}

// loadType tells what a type derives from: its first base as parent, its second one
// as other.
func (w *world) loadType(p *program, on *thread, c *class) {
	r := row{category: typeCategory, event: load, entity: c.id, name: c.name}
	for i, name := range c.bases {
		base := w.types[name]
		switch {
		case base == nil || i > 1:
		case i == 0:
			r.parent = base.id
		default:
			r.other = base.id
		}
	}
	w.event(p, on, r)
}

// retellTypes tells of all types, for the first program that has them.
func (w *world) retellTypes() {
	told := map[string]bool{}
	for _, p := range w.inOrder() {
		var own []*class
		for _, names := range p.modules {
			for _, name := range names {
				if !told[name] {
					told[name] = true
					own = append(own, w.types[name])
				}
			}
		}
		slices.SortFunc(own, func(a, b *class) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name)) })
		for _, c := range own {
			w.event(p, nil, row{category: typeCategory, event: create, entity: c.id, name: c.name})
		}
		for _, c := range own {
			w.loadType(p, nil, c)
		}
	}
}
