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

// definition is where a variable is, as debug information says.
type definition struct {
	declaration
	addr  uint64
	entry *dwarf.Entry
	of    dwarf.Offset // where it is declared, 0: here
	typ   dwarf.Type   // once it is taken
}

// declaration says which variable it is.
type declaration struct {
	unit   string // the source file that was compiled
	global bool
}

// definitions collects those of a variable.
type definitions struct {
	program  *program
	file     string // that is meant; "": any
	declared map[dwarf.Offset]declaration
	waiting  []definition // for where they are declared
	statics  []definition
	err      error // why there is none
}

// described finds a variable by the debug information. A global one hides the static ones
// of its name; of those of several files the file is to be named: file.c::name.
func (p *program) described(name string) (addr uint64, t dwarf.Type, err error) {
	d := definitions{program: p, declared: map[dwarf.Offset]declaration{}, err: errNone}
	if before, after, ok := strings.Cut(name, "::"); ok && strings.Contains(before, ".") {
		d.file, name = before, after
	}
	r := p.data.Reader()
	var scope []string
	var base int64 = -1 // of this unit's part of .debug_addr
	unit := ""
	for {
		e, readErr := r.Next()
		if readErr != nil {
			return 0, nil, fmt.Errorf("the debug information is damaged: %w", readErr)
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
		case dwarf.TagCompileUnit, dwarf.TagPartialUnit, dwarf.TagTypeUnit:
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
			dwarf.TagTypedef: // a class that is declared here, and defined in a unit of its own
			if e.Children && (e.Tag != dwarf.TagSubprogram || strings.Contains(name, "::")) {
				scope = append(scope, own)
				continue
			}
		case dwarf.TagVariable, dwarf.TagMember: // a member is a declaration of a class' static variable
			if found := d.add(e, unit, base, isNamed(e, scope, own, name)); found != nil {
				return found.addr, found.typ, nil
			}
		}
		if e.Children {
			debuginfo.SkipChildren(r, e)
		}
	}
	for _, w := range d.waiting {
		if declared, ok := d.declared[w.of]; ok {
			w.declaration = declared
			if found := d.take(w); found != nil {
				return found.addr, found.typ, nil
			}
		}
	}
	if slices.ContainsFunc(d.statics, func(one definition) bool { return d.file != "" && one.unit == d.file }) {
		d.statics = slices.DeleteFunc(d.statics, func(one definition) bool { return one.unit != d.file })
	}
	switch len(d.statics) {
	case 0:
		return 0, nil, d.err
	case 1:
		return d.statics[0].addr, d.statics[0].typ, nil
	}
	return 0, nil, ambiguous(name, d.statics)
}

// add adds what an entry tells, and returns the variable if that is the one.
func (d *definitions) add(e *dwarf.Entry, unit string, base int64, named bool) *definition {
	of, refers := e.Val(dwarf.AttrSpecification).(dwarf.Offset)
	if !refers {
		// Programs that were optimised as a whole (-flto) have another unit with where
		// variables are, before those of the files or after them.
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
	case !placed || e.Tag == dwarf.TagMember || addr == 0 || addr == math.MaxUint64: // the linker has taken another unit's
		return nil
	}
	one := definition{declaration: this, addr: addr, entry: e, of: of}
	if !named && !known {
		d.waiting = append(d.waiting, one)
		return nil
	}
	return d.take(one)
}

// take takes a definition, and returns it if it is the one that is meant.
func (d *definitions) take(one definition) *definition {
	if !isOfFile(one.unit, d.file) {
		return nil
	}
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

// isOfFile reports whether a unit is that of a source file: by its path, or the end of it.
func isOfFile(unit, file string) bool {
	return file == "" || unit == file || strings.HasSuffix(unit, "/"+file)
}

// maxNamed is how many files an error names.
const maxNamed = 5

// ambiguous says that several files have a static variable of a name, and how each is
// asked for: by as much of its file's path as tells it from the others.
func ambiguous(name string, list []definition) error {
	var each []string
	for _, d := range list {
		parts := strings.Split(d.unit, "/")
		n := 1
		for n < len(parts) && slices.ContainsFunc(list, func(o definition) bool {
			return o.unit != d.unit && isOfFile(o.unit, strings.Join(parts[len(parts)-n:], "/"))
		}) {
			n++
		}
		full := strings.Join(parts[len(parts)-n:], "/") + "::" + name
		if slices.Contains(each, full) {
			return fmt.Errorf("%s has several variables of that name, which cannot be told apart", d.unit)
		}
		each = append(each, full)
	}
	if more := len(each) - maxNamed; more > 0 {
		each = append(each[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("there are %d static variables of that name: ask for %s", len(list), strings.Join(each, " or "))
}
