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

// Receivers finds the objects on which methods are called, the classes of these
// objects and their base classes. It learns classes as objects are seen, from the
// module that holds their virtual table: the probed function's module or any other
// module of the process, including modules loaded later. A pointer that leads to no
// virtual table has no class. Nothing is read from the process except the words in the
// event and the process's mappings.
//
// The reader owns it from Subscribe to Unsubscribe.
type Receivers struct {
	cache   *elf.Cache
	methods []methodClass // by function
	classes map[string]*class
	files   map[process.FileID]*objectModule // by the file ids in /proc/PID/maps; nil: unreadable
	spaces  map[uint32]*space                // by process
	opened  []*elf.Module
}

// methodClass is a method and the class of its objects.
type methodClass struct {
	calls.Method
	module *objectModule
	entry  uint64 // of the probe, as an address of the module
	own    *class // nil: unknown
	// The last receiver's class, and its distance.
	last     *class
	distance int
}

// objectModule is a file that may contain virtual tables.
type objectModule struct {
	classes *elf.Classes
	known   map[uint64]*class // by address in the file; nil: no table there
}

// class is a class of objects.
type class struct {
	name  string
	bases []*class
	// lineage names the base classes: "" until it is first requested.
	lineage string
	asked   bool // whether other modules were searched for its bases
	// distances to other classes, as far as they were computed.
	distances map[*class]int
}

// space is the mappings of a process.
type space struct {
	mappings []process.Mapping
	nextRead time.Time // earliest time of the next read, except for readAhead
}

// received is the object of a call.
type received struct {
	address  uint64
	known    bool // there is an object at the address
	class    *class
	distance int // from the class to the method's class; -1: unrelated
}

const (
	// rereadRest limits how often mappings are reread to find new ones: after a read
	// of a process's mappings, rereadRest times the processor time of the read must
	// pass.
	rereadRest = 50
	// readAhead is how much of that rest may be skipped: mappings are read more often
	// where values that are no tables and a new library coincide.
	readAhead  = 500 * time.Millisecond
	maxSpaces  = 4096
	maxTables  = 1 << 20 // per module
	maxClasses = 1 << 20
	unrelated  = -1
)

// NewReceivers opens the modules that the functions in wants belong to.
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
			m.own.asked = true // Go types have no base classes
		case calls.OnObject, calls.OnPart:
			if k, ok := m.module.classes.Named(m.Class); ok {
				m.own = r.addClass(k, m.module, anyPID(w.Module))
			}
		}
		r.methods = append(r.methods, m)
	}
	return r, nil
}

// anyPID returns a process that has mapped the module, 0 if none is known.
func anyPID(m *selection.Module) uint32 {
	if len(m.Mapped) == 0 {
		return 0
	}
	return uint32(m.Mapped[0].Process.PID)
}

// Close releases the modules. The receivers must not be used after it.
func (r *Receivers) Close() {
	if r == nil {
		return
	}
	for _, m := range r.opened {
		m.Close()
	}
	r.opened = nil
}

// Object returns the object on which an event's function is called.
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
				if n := r.distance(k, m); n != unrelated {
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

// at returns the class of objects that point to table, nil if that is no virtual
// table. bias is the load address of module m.
func (r *Receivers) at(m *objectModule, bias uint64, pid uint32, table uint64) *class {
	if table == 0 || table%8 != 0 {
		return nil
	}
	if m.classes.Contains(table - bias) {
		return r.classAt(m, table-bias, pid)
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
	return r.classAt(m, addr, pid)
}

func (r *Receivers) classAt(m *objectModule, addr uint64, pid uint32) *class {
	k, ok := m.known[addr]
	if !ok {
		if c, found := m.classes.At(addr); found {
			k = r.addClass(c, m, pid)
		}
		if len(m.known) < maxTables {
			m.known[addr] = k
		}
	}
	return k
}

// addClass records a class of module m and its base classes.
func (r *Receivers) addClass(c elf.Class, m *objectModule, pid uint32) *class {
	k := r.named(c.Name)
	if !c.Defined && !k.asked && k.bases == nil {
		c, m = r.definition(c, pid)
	}
	if k.asked = true; !c.Defined || k.bases != nil {
		return k
	}
	if len(k.distances) > 0 || k.lineage != "" {
		r.dropResults()
	}
	for _, name := range c.Bases {
		b := r.named(name)
		if !b.asked && b.bases == nil {
			base, _ := m.classes.Named(name)
			base.Name = name
			r.addClass(base, m, pid)
		}
		if b != k && b.distanceTo(k) == unrelated { // a corrupt file may contain a cycle
			k.bases = append(k.bases, b)
		}
	}
	return k
}

// dropResults drops the cached results that depend on the classes known so far.
func (r *Receivers) dropResults() {
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

// definition searches all mappings of the process for a class.
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

// distance returns the distance from a receiver's class to the method's class.
func (r *Receivers) distance(k *class, m *methodClass) int {
	if m.last == k {
		return m.distance
	}
	if m.own == nil {
		// The method's module does not define the class, but a receiver's module does.
		m.own = r.classes[m.Class]
	}
	m.last, m.distance = k, unrelated
	if m.own != nil {
		m.distance = k.distanceTo(m.own)
	}
	return m.distance
}

// space returns the mappings of a process, cached or reread.
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

// read reads the mappings; those of a process that has ended are kept.
func (sp *space) read(pid uint32) {
	// The cost is measured in processor time: on a busy machine the elapsed time of
	// the read is no measure of it, and newly loaded libraries would be missed.
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

// elsewhere returns the module that a process has mapped at an address, and that
// address in the module's numbering. found reports whether the address is mapped, even
// if by no file.
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
	// The zero-initialised data of a file lies behind its mapped contents.
	for i > 0 && sp.mappings[i].Inode == 0 && sp.mappings[i-1].End == sp.mappings[i].Start {
		i--
	}
	mp := sp.mappings[i]
	if mp.Inode == 0 {
		return nil, 0, true
	}
	// The module begins with its headers. (A page of the file may be mapped more than
	// once: the page at the border between two segments.)
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

// file returns the module of a mapping, nil if it cannot be read.
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

// distanceTo returns the length of the shortest path from class to base that leads
// from k to base; unrelated if there is none.
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

// lineageOf returns the base classes in the form of [plan.Lineage]. Bases that become
// known after the first request are not included.
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

// SetReceivers records the columns that are constant per probed function. The rules of
// Name apply.
func (s *Subscription) SetReceivers(r *Receivers) {
	if s.receivers = r; r == nil {
		return
	}
	s.methods = make([]functionColumns, len(r.methods))
	for f, m := range r.methods {
		a := functionColumns{size: m.Size, native: m.Native}
		text, known := r.lineage(f)
		if i := slices.Index(s.cols, calls.ColClassLineage); i >= 0 && known {
			a.lineage, a.known = s.rows.Code(i, text), true
		}
		s.methods[f] = a
	}
}

var noMethod functionColumns

// functionColumns returns the constants of the event's function; the zero value for a gap.
func (e *event) functionColumns() *functionColumns {
	if e.kind == gapInitial {
		return &noMethod
	}
	return &e.subscription.methods[e.function]
}

// className returns the name of the object's class; false if it is unknown.
func (o *received) className() (string, bool) {
	if o.class == nil {
		return "", false
	}
	return o.class.name, true
}

// lineage returns the bases of the object's class; false if it is unknown.
func (o *received) lineage() (string, bool) {
	if o.class == nil {
		return "", false
	}
	return o.class.lineageOf(), true
}

// lineage returns the class_lineage of function f, false if its class is unknown.
func (r *Receivers) lineage(f int) (string, bool) {
	if r == nil || r.methods[f].own == nil {
		return "", false
	}
	return r.methods[f].own.lineageOf(), true
}
