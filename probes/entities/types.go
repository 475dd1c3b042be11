package entities

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"endoscope/probes/elf"
)

// class is a live type: some module of some process has it.
type class struct {
	id, name string
	bases    []string
	users    int // number of modules of processes that have it
	number   int // in order of creation
}

// moduleTypes is the types of a mapped file.
type moduleTypes struct {
	file    string // identifies the file
	classes []elf.Class
}

// map_ sets the modules that a program has mapped. Types of new modules are all
// created and then loaded, so that each may refer to any other; types that no
// module has any more are reclaimed.
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
			w.releaseType(p, on, name)
		}
		delete(p.modules, file)
	}
}

// byUse is the pseudo-module of types that are known from their use.
const byUse = "used"

// use records that a method of a class is called.
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

// unload records that a class known by use is unloaded.
func (w *world) unload(p *program, on *thread, name string) {
	if !p.used[name] {
		return
	}
	delete(p.used, name)
	p.modules[byUse] = slices.DeleteFunc(p.modules[byUse], func(other string) bool { return other == name })
	w.releaseType(p, on, name)
}

// releaseType removes one module's reference to a type.
func (w *world) releaseType(p *program, on *thread, name string) {
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

// loadType emits the bases of a type: the first as parent, the second as other.
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

// resendTypes emits all types again, for the first program that has them.
func (w *world) resendTypes() {
	listed := map[string]bool{}
	for _, p := range w.inOrder() {
		var own []*class
		for _, names := range p.modules {
			for _, name := range names {
				if !listed[name] {
					listed[name] = true
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
