package debuginfo

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Inlined is a call that was compiled into its caller.
type Inlined struct {
	// Linkage is the name that a symbol of the function has. If it is "", the debug information
	// does not say it, and Name is that of the source, within its namespaces and classes.
	Linkage, Name string
	// Position is where the function is: at the instruction, or at its own inlined call.
	Position
}

// Inlined returns the calls compiled into the function that the instruction at an address
// belongs to, innermost first, and the place where that function itself is, of line 0 if it is
// not known. Without lines, it reads no line table, and all places are of line 0.
func (s *Source) Inlined(addr uint64, lines bool) (calls []Inlined, outer Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := guard(func() error {
		s.spent = 0
		u := s.unitAt(addr)
		if u == nil || errors.Is(s.failed, errFar) {
			return nil
		}
		if lines {
			outer, _ = s.line(u, addr)
		}
		chain, part, err := s.chain(u, addr)
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(chain) {
			one := Inlined{Position: outer}
			one.Linkage, one.Name = part.nameOf(e.origin)
			calls = append(calls, one)
			if outer = (Position{}); lines && s.readLines(u) {
				outer = Position{u.program.path(e.callFile), int(int32(e.callLine))}
			}
		}
		return nil
	})
	if err != nil && s.failed == nil {
		s.failed = err
	}
	return calls, outer
}

// Err returns why debug information could not be read that was asked for; nil: it could.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// unitFunctions are the functions of a unit, and its scopes.
type unitFunctions struct {
	ranges []functionRange // by low
	scopes []scope         // by at
}

// functionRange is a range of a function's code. Its entry is at an offset of .debug_info.
type functionRange struct {
	low, high uint64
	at        int
}

// scope is a namespace or a class: the entries from at to end.
type scope struct {
	at, end int
	parent  int // in scopes; -1: none
}

// Tags of scopes (DWARF 5, 7.3).
const (
	tagClass     = 0x02
	tagStruct    = 0x13
	tagUnion     = 0x17
	tagModule    = 0x1e
	tagNamespace = 0x39
)

func isScope(tag uint64) bool {
	switch tag {
	case tagClass, tagStruct, tagUnion, tagModule, tagNamespace, tagSubprogram:
		return true
	}
	return false
}

// maxNested limits the depth of entries.
const maxNested = 1 << 12

// reader returns a reader of entries of u from an offset on.
func (s *Source) reader(u *codeUnit, at int) (*entryReader, error) {
	table := s.tables[u.abbrev]
	if table == nil {
		all, err := shapesAt(s.sections.abbrev, u.abbrev)
		if err != nil {
			return nil, err
		}
		if table, err = all.dense(); err != nil {
			return nil, err
		}
		if len(s.tables) >= maxTables {
			clear(s.tables)
		}
		s.tables[u.abbrev] = table
	}
	return &entryReader{s: s.sections, u: u, shapes: table, r: readerAt(s.sections.info[:u.end], at)}, nil
}

// readFunctions reads the functions of a unit that have code.
func (s *Source) readFunctions(u *codeUnit) error {
	if u.functions != nil {
		return nil
	}
	out := &unitFunctions{}
	u.functions = out // also if it is damaged, so that it is not read again
	r, err := s.reader(u, u.entries)
	if err != nil {
		return err
	}
	open, depth := []int{-1}, 0 // indexes of scopes, by the depth of their children; -1: none
	parent := -1
	var e entry
	for {
		ok, err := r.next(&e, isFunction)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := s.spend(1); err != nil {
			return err
		}
		if e.tag == 0 {
			if depth == 0 {
				return errAbbrev
			}
			if i := open[depth]; i >= 0 {
				out.scopes[i].end, parent = e.at, out.scopes[i].parent
			}
			open, depth = open[:depth], depth-1
			if depth == 0 {
				break
			}
			continue
		}
		if e.tag == tagSubprogram && (e.hasLow || e.hasRanges) {
			ranges, err := s.codeOf(u, &e)
			if err != nil {
				return err
			}
			for _, at := range ranges {
				out.ranges = append(out.ranges, functionRange{at[0], at[1], e.at})
			}
		}
		if !e.children {
			continue
		}
		if depth++; depth > maxNested {
			return errAbbrev
		}
		if isScope(e.tag) {
			open = append(open, len(out.scopes))
			out.scopes = append(out.scopes, scope{e.at, u.end, parent})
			parent = len(out.scopes) - 1
		} else {
			open = append(open, -1)
		}
	}
	slices.SortFunc(out.ranges, func(a, b functionRange) int { return cmp.Compare(a.low, b.low) })
	s.keep(u, len(out.ranges)+len(out.scopes))
	return nil
}

func isFunction(one *shape) bool { return one.tag == tagSubprogram && one.coded }

func isCall(one *shape) bool { return one.tag == tagInlined }

// codeOf is rangesOf into memory that the next call uses again.
func (s *Source) codeOf(u *codeUnit, e *entry) ([][2]uint64, error) {
	if !e.hasLow && !e.hasRanges {
		return nil, nil
	}
	out, err := s.sections.rangesOf(u, e, s.spend, s.scratch[:0])
	s.scratch = out[:0]
	return out, err
}

// functionAt returns the offset of the entry of the function that has the code at an address; 0
// if there is none. Of functions within functions it is the inner one.
func (f *unitFunctions) functionAt(addr uint64) int {
	i, _ := slices.BinarySearchFunc(f.ranges, addr+1, func(r functionRange, addr uint64) int { return cmp.Compare(r.low, addr) })
	for n := 0; i > 0 && n < maxNested; n++ {
		if i--; addr < f.ranges[i].high {
			return f.ranges[i].at
		}
	}
	return 0
}

// chain returns the inlined calls that an address belongs to, outermost first, and the
// debug information in which their entries are.
func (s *Source) chain(u *codeUnit, addr uint64) (chain []entry, part *Source, err error) {
	part, u, err = s.whole(u)
	if err != nil {
		return nil, nil, err
	}
	if err := part.readFunctions(u); err != nil {
		return nil, nil, err
	}
	at := u.functions.functionAt(addr)
	if at == 0 {
		return nil, part, nil
	}
	r, err := part.reader(u, at)
	if err != nil {
		return nil, nil, err
	}
	var e entry
	if ok, err := r.next(&e, isCall); err != nil || !ok || !e.children {
		return nil, part, err
	}
	// Calls without code of their own, or with an empty range, as in DWARF 2 where a call has
	// several ranges, belong to the chain if one within them does.
	var depths []int // of the children of the calls of the chain
	depth, skipped, complete := 1, 0, 0
	for depth > 0 {
		ok, err := r.next(&e, isCall)
		if err != nil || !ok {
			return chain[:complete], part, err
		}
		if err := part.spend(1); err != nil {
			return nil, nil, err
		}
		if e.tag == 0 {
			switch n := len(depths); {
			case n > 0 && depths[n-1] == depth && n == complete:
				return chain, part, nil
			case n > 0 && depths[n-1] == depth:
				chain, depths = chain[:n-1], depths[:n-1]
			case depth == skipped:
				skipped = 0
			}
			depth--
			continue
		}
		enters, found := e.tag == tagInlined && skipped == 0, false
		if enters && (e.hasLow || e.hasRanges) {
			ranges, err := part.codeOf(u, &e)
			if err != nil {
				return nil, nil, err
			}
			if slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= addr && addr < r[1] }) {
				found = true
			} else {
				enters = len(ranges) == 0
			}
		}
		if found || enters && e.children {
			chain, depths = append(chain, e), append(depths, depth+1)
		}
		if found {
			complete = len(chain)
		}
		switch {
		case found && !e.children:
			return chain, part, nil
		case !e.children:
			continue
		}
		depth++
		if !enters && skipped == 0 && (e.tag == tagInlined || e.tag == tagSubprogram) {
			if e.sibling > e.at {
				r.r = readerAt(r.s.info[:u.end], e.sibling)
				depth--
				continue
			}
			skipped = depth
		}
	}
	return chain[:complete], part, nil
}

// whole returns the debug information that has the entries of a unit, and the unit there.
func (s *Source) whole(u *codeUnit) (*Source, *codeUnit, error) {
	if !u.skeleton || s.split == nil {
		return s, u, nil
	}
	if u.part == nil && u.partErr == nil {
		if s.parts++; s.parts > maxParts {
			for _, other := range s.units {
				other.part = nil
			}
			s.parts = 1
		}
		u.part, u.partErr = s.readSplit(u)
	}
	if u.partErr != nil {
		return nil, nil, u.partErr
	}
	u.part.spent = 0 // a look-up reads one part
	return u.part, u.part.units[0], nil
}

// maxParts limits the units in files of their own that are kept.
const maxParts = 64

// readSplit reads the unit of a skeleton.
func (s *Source) readSplit(u *codeUnit) (*Source, error) {
	own := s.sections
	main := &Info{Addresses: own.addresses, ranges: own.ranges, line: own.line, lineText: own.lineText}
	skeleton := &Skeleton{Name: string(own.textOf(u, u.dwoName)), Dir: string(own.textOf(u, u.dir)), ID: u.dwoID, low: u.low, lines: -1, addresses: u.addressBase, rangesBase: u.gnuRanges}
	if u.hasLines {
		skeleton.lines = int64(u.lines)
	}
	d, err := s.split(main, skeleton)
	if err != nil {
		return nil, err
	}
	part := &Source{sections: d.source, tables: map[uint64][]*shape{}, info: d}
	if err := part.index(); err != nil {
		return nil, err
	}
	if len(part.units) == 0 {
		return nil, ErrOtherUnit
	}
	return part, nil
}

// unitOf returns the unit that has the entry at an offset; nil if there is none.
func (s *Source) unitOf(at int) *codeUnit {
	i, found := slices.BinarySearchFunc(s.units, at, func(u *codeUnit, at int) int { return cmp.Compare(u.at, at) })
	if !found {
		i--
	}
	if i < 0 || at < s.units[i].entries || at >= s.units[i].end {
		return nil
	}
	return s.units[i]
}

// maxReferences limits the entries that the name of a function is looked for in, and its scopes.
const maxReferences = 16

// nameOf returns the names of the function whose entry is at an offset: that of its symbol or,
// where that is not known, that of the source.
func (s *Source) nameOf(at int) (linkage, name string) {
	u, end, e := s.declaration(at)
	if e.linkage.form != 0 {
		return bounded(s.sections.textOf(u, e.linkage)), ""
	}
	return "", s.qualified(u, end, &e, maxReferences)
}

// declaration follows references from the entry of a function to the one that has its name.
func (s *Source) declaration(at int) (u *codeUnit, end int, e entry) {
	for range maxReferences {
		next := s.unitOf(at)
		if next == nil {
			break
		}
		r, err := s.reader(next, at)
		if err != nil {
			break
		}
		var one entry
		if ok, err := r.next(&one, wantAll); err != nil || !ok || one.tag == 0 {
			break
		}
		if u, end, e = next, at, one; e.origin == 0 || e.linkage.form != 0 {
			break
		}
		at = e.origin
	}
	return u, end, e
}

// maxNameBytes limits the length of a name.
const maxNameBytes = 16 << 10

func bounded(b []byte) string { return string(b[:min(len(b), maxNameBytes)]) }

// unnamedClass is the name of a class that has none.
const unnamedClass = "{unnamed}"

// qualified returns the name of an entry within at most depth scopes.
func (s *Source) qualified(u *codeUnit, at int, e *entry, depth int) string {
	if u == nil {
		return ""
	}
	name := bounded(s.sections.textOf(u, e.name))
	switch {
	case name != "":
	case e.tag == tagNamespace:
		name = "(anonymous namespace)"
	case isScope(e.tag) && e.tag != tagSubprogram:
		name = unnamedClass
	default:
		return ""
	}
	if depth == 0 || s.readFunctions(u) != nil {
		return name
	}
	scopes := u.functions.scopes
	i, _ := slices.BinarySearchFunc(scopes, at, func(c scope, at int) int { return cmp.Compare(c.at, at) })
	for i--; i >= 0 && at >= scopes[i].end; {
		i = scopes[i].parent
	}
	if i < 0 {
		return name
	}
	outer, end, scope := s.declaration(scopes[i].at)
	if within := s.qualified(outer, end, &scope, depth-1); within != "" && len(within) < maxNameBytes {
		if outer, ok := strings.CutSuffix(within, unnamedClass); ok && name == "operator()" {
			within = outer + "{lambda}" // as demanglers call it
		}
		return within + "::" + name
	}
	return name
}
