package decode

import (
	"math"
	"runtime"
	"slices"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/clock"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// Receivers tells on which objects methods are called, and of which classes
// those are and what they derive from. That is learnt as objects are seen: from
// the module that has their virtual table, which is where the probed function's
// is or elsewhere in the process, be it loaded later. Where a pointer leads to no
// virtual table there is no class; nothing is read of the process but the words
// that the event has, and its mappings.
//
// It belongs to the reader from subscribe to unsubscribe.
type Receivers struct {
	cache   *elf.Cache
	methods []methodClass // by function
	classes map[string]*class
	files   map[process.FileID]*objectModule // as maps tells them; nil: cannot be read
	spaces  map[uint32]*space                // by process
	opened  []*elf.Module
}

// methodClass is a method and the class of its objects.
type methodClass struct {
	calls.Method
	module *objectModule
	entry  uint64 // of the probe, as the module numbers it
	own    *class // nil: it is not known
	// The last receiver's class, and its distance.
	last     *class
	distance int
}

// objectModule is a file that may have virtual tables.
type objectModule struct {
	classes *elf.Classes
	known   map[uint64]*class // by address in the file; nil: there is no table
}

// class is a class of objects.
type class struct {
	name  string
	bases []*class
	// lineage says what it derives from: "" until it is asked for.
	lineage string
	asked   bool // whether other modules know its bases
	// distances to others, as far as they were asked for.
	distances map[*class]int
}

// space is what a process has mapped.
type space struct {
	mappings []process.Mapping
	nextRead time.Time // not before, but for readAhead
}

// received is the object of a call.
type received struct {
	address  uint64
	known    bool // there is one, at the address
	class    *class
	distance int // from the class to the method's; -1: they are not related
}

const (
	// rereadRest is how many times the processor time of reading a process' mappings
	// has to pass until they are read again, to find what was mapped since.
	rereadRest = 50
	// readAhead is how much of that rest may be owed: what is mapped is looked at
	// more often where values that are no tables and a new library come together.
	readAhead  = 500 * time.Millisecond
	maxSpaces  = 4096
	maxTables  = 1 << 20 // of a module
	maxClasses = 1 << 20
	unrelated  = -1
)

// NewReceivers opens the modules that wants are functions of.
func NewReceivers(cache *elf.Cache, wants []calls.Function) (*Receivers, error) {
	r := &Receivers{cache: cache, classes: map[string]*class{}, files: map[process.FileID]*objectModule{}, spaces: map[uint32]*space{}}
	modules := map[*selection.Module]*objectModule{}
	for _, w := range wants {
		m := methodClass{Method: w.Method, entry: w.Site.Addr}
		if m.On == calls.OnNothing {
			r.methods = append(r.methods, m)
			continue
		}
		if modules[w.Module] == nil {
			sym, err := cache.Open(w.Module.File, w.Module.Name())
			if err != nil {
				r.Close()
				return nil, err
			}
			r.opened = append(r.opened, sym)
			modules[w.Module] = &objectModule{sym.Classes(), map[uint64]*class{}}
			for _, pl := range w.Module.Mapped {
				r.files[process.FileID{Dev: pl.Mapping.Dev, Inode: pl.Mapping.Inode}] = modules[w.Module]
				r.space(uint32(pl.Process.PID)) // it may end before its first event is read
			}
		}
		m.module = modules[w.Module]
		switch m.On {
		case calls.OnPointer, calls.OnValue:
			m.own = r.named(m.Class)
			m.own.asked = true // Go's types derive from nothing
		case calls.OnObject, calls.OnPart:
			if k, ok := m.module.classes.Named(m.Class); ok {
				m.own = r.learn(k, m.module, anyPID(w.Module))
			}
		}
		r.methods = append(r.methods, m)
	}
	return r, nil
}

// anyPID is a process that has mapped the module, 0 if none is known.
func anyPID(m *selection.Module) uint32 {
	if len(m.Mapped) == 0 {
		return 0
	}
	return uint32(m.Mapped[0].Process.PID)
}

// Close gives the modules back. The receivers know nothing more after it.
func (r *Receivers) Close() {
	if r == nil {
		return
	}
	for _, m := range r.opened {
		m.Close()
	}
	r.opened = nil
}

// Object is the object on which an event's function is called.
func (r *Receivers) Object(e *event) received {
	m := &r.methods[e.function]
	switch m.On {
	case calls.OnPointer:
		return received{address: e.args[0], known: true, class: m.own}
	case calls.OnValue:
		return received{class: m.own}
	case calls.OnPart:
		return received{address: e.args[0], known: true, class: m.own}
	case calls.OnObject:
		bias := e.ip - m.entry
		for i, table := range e.tables {
			if k := r.at(m.module, bias, e.Pid, table); k != nil {
				if n := r.distance(k, m, e.Pid); n != unrelated {
					return received{e.args[i], true, k, n}
				}
			}
		}
		return received{address: e.args[0], known: true, distance: unrelated}
	case calls.OnAnything:
		if k := r.at(m.module, e.ip-m.entry, e.Pid, e.tables[0]); k != nil {
			return received{e.args[0], true, k, unrelated}
		}
	}
	return received{distance: unrelated}
}

// at is the class of objects that point to table, nil if that is no virtual
// table. bias is where the module m lies.
func (r *Receivers) at(m *objectModule, bias uint64, pid uint32, table uint64) *class {
	if table == 0 || table%8 != 0 {
		return nil
	}
	if m.classes.Contains(table - bias) {
		return r.in(m, table-bias, pid)
	}
	sp := r.space(pid)
	m, addr, found := r.elsewhere(sp, pid, table)
	if !found && time.Now().Add(readAhead).After(sp.nextRead) {
		sp.read(pid)
		m, addr, _ = r.elsewhere(sp, pid, table)
	}
	if m == nil {
		return nil
	}
	return r.in(m, addr, pid)
}

func (r *Receivers) in(m *objectModule, addr uint64, pid uint32) *class {
	k, ok := m.known[addr]
	if !ok {
		if c, found := m.classes.At(addr); found {
			k = r.learn(c, m, pid)
		}
		if len(m.known) < maxTables {
			m.known[addr] = k
		}
	}
	return k
}

// learn notes a class of module m, and what it derives from.
func (r *Receivers) learn(c elf.Class, m *objectModule, pid uint32) *class {
	k := r.named(c.Name)
	if !c.Defined && !k.asked && k.bases == nil {
		c, m = r.definition(c, pid)
	}
	if k.asked = true; !c.Defined || k.bases != nil {
		return k
	}
	if len(k.distances) > 0 || k.lineage != "" {
		r.forget()
	}
	for _, name := range c.Bases {
		b := r.named(name)
		if !b.asked && b.bases == nil {
			base, _ := m.classes.Named(name)
			base.Name = name
			r.learn(base, m, pid)
		}
		if b != k && b.distanceTo(k) == unrelated { // no program's classes go round
			k.bases = append(k.bases, b)
		}
	}
	return k
}

// forget drops what followed from what was known of classes so far.
func (r *Receivers) forget() {
	for _, k := range r.classes {
		clear(k.distances)
		k.lineage = ""
	}
	for i := range r.methods {
		r.methods[i].last = nil
	}
}

func (r *Receivers) named(name string) *class {
	k := r.classes[name]
	if k == nil {
		k = &class{name: name, distances: map[*class]int{}}
		if len(r.classes) < maxClasses {
			r.classes[name] = k
		}
	}
	return k
}

// definition looks for a class in all that the process has mapped.
func (r *Receivers) definition(c elf.Class, pid uint32) (elf.Class, *objectModule) {
	for _, mp := range r.space(pid).mappings {
		if mp.Inode == 0 || mp.Offset != 0 {
			continue
		}
		if m := r.file(mp, pid); m != nil {
			if found, ok := m.classes.Named(c.Name); ok && found.Defined {
				return found, m
			}
		}
	}
	return c, nil
}

// distance is from a receiver's class to that of the method.
func (r *Receivers) distance(k *class, m *methodClass, pid uint32) int {
	if m.last == k {
		return m.distance
	}
	if m.own == nil {
		// The module of the method does not know the class, but a receiver's does.
		m.own = r.classes[m.Class]
	}
	m.last, m.distance = k, unrelated
	if m.own != nil {
		m.distance = k.distanceTo(m.own)
	}
	return m.distance
}

// space is what a process has mapped, or had when it was looked at last.
func (r *Receivers) space(pid uint32) *space {
	sp := r.spaces[pid]
	if sp == nil {
		if len(r.spaces) >= maxSpaces {
			clear(r.spaces)
		}
		sp = &space{}
		sp.read(pid)
		r.spaces[pid] = sp
	}
	return sp
}

// read reads the mappings; those of a process that has ended remain.
func (sp *space) read(pid uint32) {
	// The cost is processor time: on a busy machine the time until the file is read
	// says nothing about it, and libraries that are loaded would be missed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, used := time.Now(), clock.Thread()
	defer func() {
		next := sp.nextRead
		if next.Before(began) {
			next = began
		}
		sp.nextRead = next.Add(rereadRest * time.Duration(clock.Thread()-used))
	}()
	if ms, err := process.Mappings(int(pid)); err == nil && len(ms) > 0 {
		sp.mappings = ms
	}
}

// elsewhere is the module that a process has mapped at an address, and that
// address as the module numbers it. found: it is mapped, be it of no file.
func (r *Receivers) elsewhere(sp *space, pid uint32, addr uint64) (m *objectModule, at uint64, found bool) {
	i, _ := slices.BinarySearchFunc(sp.mappings, addr, func(mp process.Mapping, addr uint64) int {
		if mp.End <= addr {
			return -1
		}
		return 1
	})
	if i == len(sp.mappings) || sp.mappings[i].Start > addr {
		return nil, 0, false
	}
	// What a file leaves to be zero lies behind what it has.
	for i > 0 && sp.mappings[i].Inode == 0 && sp.mappings[i-1].End == sp.mappings[i].Start {
		i--
	}
	mp := sp.mappings[i]
	if mp.Inode == 0 {
		return nil, 0, true
	}
	// The module begins with its headers. (A page of the file may be mapped more
	// than once: that of the border between two segments.)
	for ; i >= 0; i-- {
		first := sp.mappings[i]
		if first.Inode != mp.Inode || first.Dev != mp.Dev || first.Offset != 0 {
			continue
		}
		if m = r.file(first, pid); m != nil {
			at = addr - m.classes.Bias(first.Start)
		}
		break
	}
	return m, at, true
}

// file is the module of a mapping, nil if it cannot be read.
func (r *Receivers) file(mp process.Mapping, pid uint32) *objectModule {
	id := process.FileID{Dev: mp.Dev, Inode: mp.Inode}
	m, ok := r.files[id]
	if ok {
		return m
	}
	r.files[id] = nil
	f, err := process.OpenModule(int(pid), mp)
	if err != nil {
		return nil
	}
	defer f.Close()
	sym, err := r.cache.Open(f, mp.Path)
	if err != nil {
		return nil
	}
	r.opened = append(r.opened, sym)
	m = &objectModule{sym.Classes(), map[uint64]*class{}}
	r.files[id] = m
	return m
}

// distanceTo is by how many steps from class to base k leads to base, by the
// shortest way; unrelated if it does not.
func (k *class) distanceTo(base *class) int {
	if k == base {
		return 0
	}
	if n, ok := k.distances[base]; ok {
		return n
	}
	best := math.MaxInt
	for _, b := range k.bases {
		if n := b.distanceTo(base); n != unrelated {
			best = min(best, n+1)
		}
	}
	if best == math.MaxInt {
		best = unrelated
	}
	if len(k.distances) < maxClasses {
		k.distances[base] = best
	}
	return best
}

// lineageOf says what a class derives from, as [plan.Lineage] has it. Of what was
// not there when it was asked first nothing is said.
func (k *class) lineageOf() string {
	if k.lineage == "" {
		l := plan.Lineage{}
		seen := map[*class]bool{}
		var up func(k *class)
		up = func(k *class) {
			if seen[k] {
				return
			}
			seen[k] = true
			for _, b := range k.bases {
				l.Add(k.name, b.name)
				up(b)
			}
		}
		up(k)
		k.lineage = l.String(k.name)
	}
	return k.lineage
}

// SetReceivers notes what is constant of the functions with probes. Called as name is.
func (s *Subscription) SetReceivers(r *Receivers) {
	if s.receivers = r; r == nil {
		return
	}
	s.methods = make([]about, len(r.methods))
	for f, m := range r.methods {
		a := about{size: m.Size, native: m.Native}
		text, known := r.lineage(f)
		if i := slices.Index(s.cols, calls.ColClassLineage); i >= 0 && known {
			a.lineage, a.known = s.rows.Code(i, text), true
		}
		s.methods[f] = a
	}
}

var noMethod about

// about is what is constant of the event's function: nothing of a gap's.
func (e *event) about() *about {
	if e.kind == gapInitial {
		return &noMethod
	}
	return &e.of.methods[e.function]
}

// className is the name of the object's class; false if that is not known.
func (o *received) className() (string, bool) {
	if o.class == nil {
		return "", false
	}
	return o.class.name, true
}

// lineage is what the object's class derives from; false if that is not known.
func (o *received) lineage() (string, bool) {
	if o.class == nil {
		return "", false
	}
	return o.class.lineageOf(), true
}

// lineage is the class_lineage of function f, false if its class is not known.
func (r *Receivers) lineage(f int) (string, bool) {
	if r == nil || r.methods[f].own == nil {
		return "", false
	}
	return r.methods[f].own.lineageOf(), true
}
