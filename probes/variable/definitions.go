package variable

import (
	"debug/dwarf"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"endoscope/probes/dwarf/debuginfo"
)

// definition is the location of a variable in the debug information.
type definition struct {
	declaration
	addr  uint64
	entry *dwarf.Entry
	of    dwarf.Offset    // its declaration; 0: this entry
	typ   dwarf.Type      // set by addDefinition
	data  *debuginfo.Info // that has the type
}

// declaration identifies a variable.
type declaration struct {
	unit   string // the source file of the unit
	global bool
}

// definitions collects the definitions of a variable.
type definitions struct {
	program  *program
	file     string // file that the name selects; "": any
	declared map[dwarf.Offset]declaration
	waiting  []definition // until their declarations are read
	statics  []definition
	err      error // why none is usable
}

// described finds a variable in the debug information. A global variable hides
// static ones of the same name; if several files have a static one, the name
// must give the file: file.c::name.
func (p *program) described(name string) (addr uint64, t dwarf.Type, err error) {
	d := definitions{program: p, declared: map[dwarf.Offset]declaration{}, err: errNone}
	if before, after, ok := strings.Cut(name, "::"); ok && strings.Contains(before, ".") {
		d.file, name = before, after
	}
	found, err := d.search(name)
	if err != nil {
		return 0, nil, err
	}
	if found == nil {
		if slices.ContainsFunc(d.statics, func(one definition) bool { return d.file != "" && one.unit == d.file }) {
			d.statics = slices.DeleteFunc(d.statics, func(one definition) bool { return one.unit != d.file })
		}
		switch len(d.statics) {
		case 0:
			return 0, nil, d.err
		case 1:
			found = &d.statics[0]
		default:
			return 0, nil, ambiguous(name, d.statics)
		}
	}
	p.data = found.data // its type may have bases
	return found.addr, found.typ, nil
}

// search searches the debug information, and that of each split unit. It
// returns the variable, if that is settled.
func (d *definitions) search(name string) (*definition, error) {
	p := d.program
	if p.own == nil {
		p.own = p.data
	}
	all := p.own
	p.data = all
	units, found, err := d.read(name)
	if err != nil || found != nil || p.units == nil {
		return found, err
	}
	defer func() { p.data = all }()
	for _, unit := range units {
		part, err := p.units.Whole(all, unit)
		if err != nil {
			p.split = err // the variable may be in another unit
			continue
		}
		p.data = part
		d.declared, d.waiting = map[dwarf.Offset]declaration{}, nil
		if _, found, err := d.read(name); err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// read reads the program's current debug information. skeletons are the entries
// of units that are elsewhere.
func (d *definitions) read(name string) (skeletons []*dwarf.Entry, found *definition, err error) {
	p := d.program
	r := p.data.Reader()
	var scope []string
	var base int64 = -1 // offset of this unit's part of .debug_addr
	unit := ""
	for {
		e, readErr := r.Next()
		if readErr != nil {
			return nil, nil, fmt.Errorf("the debug information is damaged: %w", readErr)
		}
		if e == nil {
			break
		}
		own, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case 0:
			if len(scope) > 0 {
				scope = scope[:len(scope)-1]
			}
			continue
		case dwarf.TagCompileUnit, dwarf.TagPartialUnit, dwarf.TagTypeUnit, dwarf.TagSkeletonUnit:
			if p.data.Skeleton(e) != nil {
				skeletons = append(skeletons, e)
			}
			scope = scope[:0]
			base = -1
			if b, ok := e.Val(dwarf.AttrAddrBase).(int64); ok {
				base = b
			}
			unit = own
			if dir, _ := e.Val(dwarf.AttrCompDir).(string); unit != "" && !path.IsAbs(unit) {
				unit = path.Join(dir, unit)
			}
			if e.Children {
				scope = append(scope, "")
			}
			continue
		case dwarf.TagNamespace, dwarf.TagStructType, dwarf.TagClassType, dwarf.TagSubprogram, dwarf.TagLexDwarfBlock,
			dwarf.TagTypedef: // a class declared here and defined in a type unit
			if e.Children && (e.Tag != dwarf.TagSubprogram || strings.Contains(name, "::")) {
				scope = append(scope, own)
				continue
			}
		case dwarf.TagVariable, dwarf.TagMember: // a member is the declaration of a static variable of a class
			if found := d.add(e, unit, base, isNamed(e, scope, own, name)); found != nil {
				return skeletons, found, nil
			}
		}
		if e.Children {
			debuginfo.SkipChildren(r, e)
		}
	}
	for _, w := range d.waiting {
		if declared, ok := d.declared[w.of]; ok {
			w.declaration = declared
			if found := d.addDefinition(w); found != nil {
				return skeletons, found, nil
			}
		}
	}
	return skeletons, nil, nil
}

// add adds an entry, and returns the variable if the entry settles which it is.
func (d *definitions) add(e *dwarf.Entry, unit string, base int64, named bool) *definition {
	of, refers := e.Val(dwarf.AttrSpecification).(dwarf.Offset)
	if !refers {
		// Programs built with -flto have the locations of variables in another
		// unit, before or after those of the files.
		of, refers = e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
	}
	this, known := d.declared[of]
	if !refers || !known {
		this = declaration{unit: unit}
	}
	if external, ok := e.Val(dwarf.AttrExternal).(bool); ok {
		this.global = external
	}
	if !named && !refers {
		return nil
	}
	addr, placed, why := d.program.address(e, base)
	switch {
	case named && !placed:
		if e.Val(dwarf.AttrLocation) == nil {
			d.declared[e.Offset] = this
		}
		fallthrough
	case known && !placed:
		if why != nil {
			d.err = why
		}
		return nil
	case !placed || e.Tag == dwarf.TagMember || addr == 0 || addr == math.MaxUint64: // the linker has kept another unit's copy
		return nil
	}
	one := definition{declaration: this, addr: addr, entry: e, of: of}
	if !named && !known {
		d.waiting = append(d.waiting, one)
		return nil
	}
	return d.addDefinition(one)
}

// addDefinition adds a definition, and returns it if it settles which one is meant.
func (d *definitions) addDefinition(one definition) *definition {
	if !isFromFile(one.unit, d.file) {
		return nil
	}
	one.data = d.program.data
	var err error
	if one.typ, err = d.program.typeOf(one.entry); err != nil {
		d.err = err
		return nil
	}
	if one.global {
		return &one
	}
	if !slices.ContainsFunc(d.statics, func(o definition) bool { return o.addr == one.addr }) {
		d.statics = append(d.statics, one)
	}
	return nil
}

// isFromFile reports whether a unit was compiled from a source file, given by its
// path or the end of it.
func isFromFile(unit, file string) bool {
	return file == "" || unit == file || strings.HasSuffix(unit, "/"+file)
}

// maxNamed limits the files that an error names.
const maxNamed = 5

// ambiguous returns the error for a static variable of several files. It lists
// a name for each, with as much of the file's path as makes it unique.
func ambiguous(name string, list []definition) error {
	var each []string
	for _, d := range list {
		parts := strings.Split(d.unit, "/")
		n := 1
		for n < len(parts) && slices.ContainsFunc(list, func(o definition) bool {
			return o.unit != d.unit && isFromFile(o.unit, strings.Join(parts[len(parts)-n:], "/"))
		}) {
			n++
		}
		full := strings.Join(parts[len(parts)-n:], "/") + "::" + name
		if slices.Contains(each, full) {
			return fmt.Errorf("%s has several variables of that name, which cannot be distinguished", d.unit)
		}
		each = append(each, full)
	}
	if more := len(each) - maxNamed; more > 0 {
		each = append(each[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("there are %d static variables of that name: ask for %s", len(list), strings.Join(each, " or "))
}
