package resolve

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codesite"
	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Places in the code, which names such as 0x401136, main+0x12 and parse.c:120 denote, are
// functions of function_start, as marked places are. Their arguments are the variables that
// live there; they have no return.

// places adds the places of a module that the selection names.
func (r *resolver) places(m *selection.Module, sym *elf.Module) error {
	var texts []*text
	defer func() { closeTexts(texts) }()
	var values *calls.PlaceValues
	for k := range r.sel.Locations {
		p := &r.sel.Locations[k]
		name := p.Name.V.S
		if r.found[name] && len(sym.Find(name)) > 0 {
			continue // it is the name of a function
		}
		if ok, err := r.sel.Match(name, "", m.Name()); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		addrs, remarks, err := Addresses(p, sym)
		r.remarks = append(r.remarks, remarks...)
		if err != nil {
			r.unplaced[name] = err
			continue
		}
		if err := r.refusePlaceColumns(p); err != nil {
			return err
		}
		if texts == nil {
			if texts, err = r.texts(m); err != nil {
				return err
			}
		}
		if values == nil && calls.AnyValue(r.values) {
			values = calls.OpenPlaceValues(sym, r.values)
		}
		for _, addr := range addrs {
			if err := r.place(m, sym, p, addr, texts, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// place adds the instruction at an address.
func (r *resolver) place(m *selection.Module, sym *elf.Module, p *selection.Location, addr uint64, texts []*text, values *calls.PlaceValues) error {
	name := p.Name.V.S
	site, start, err := codesite.In(sym).PlaceAt(addr, p.Line > 0)
	if err != nil {
		if !r.found[name] {
			r.unplaced[name] = r.misplaced(p, addr, start, err)
		}
		if p.Line > 0 && r.found[name] {
			r.skip(name, fmt.Sprintf("%#x %v", addr, err))
		}
		return nil
	}
	r.found[name] = true
	r.selected++
	delete(r.unplaced, name)
	end := site.Offset + uint64(len(site.Bytes))
	for _, t := range texts {
		if reason := t.check(site.Offset, end, []uint64{site.Offset}); reason != "" {
			r.skip(name, reason)
			return nil
		}
	}
	r.costs = r.prices()
	var read []calls.FunctionValue
	if values != nil {
		read = values.At(functionOf(sym, addr), addr, name)
	}
	for _, s := range r.scopes(m, calls.Unseen) {
		r.wants = append(r.wants, calls.Function{
			Module: m, Scope: s, Site: site, Behind: addr - start, Flags: abi.Placed, Marked: &usdt.Probe{Site: site}, Values: read,
			Label: calls.Label{Function: name, Module: m.Name(), Exe: s.Exe, Inside: true},
		})
	}
	return nil
}

// functionOf returns the function of which the instruction at an address is a part, -1 if it
// is not known.
func functionOf(sym *elf.Module, addr uint64) int {
	if i, ok := sym.FunctionAt(addr); ok {
		return i
	}
	if start, _, ok := sym.Piece(addr); ok {
		if i, ok := sym.WholeOf(start); ok {
			return i
		}
	}
	return -1
}

// PlaceValuesOf returns how values are read at the places of a module that a selection names,
// and their names. Places that are not found are left out: Resolve reports them.
func PlaceValuesOf(sel *selection.Selector, sym *elf.Module, module string, vs []*calls.Value) (found [][]calls.FunctionValue, names []string) {
	for k := range sel.Locations {
		p := &sel.Locations[k]
		name := p.Name.V.S
		if ok, err := sel.Match(name, "", module); !ok || err != nil || len(sym.Find(name)) > 0 {
			continue
		}
		addrs, _, err := Addresses(p, sym)
		if err != nil {
			continue
		}
		values := calls.OpenPlaceValues(sym, vs)
		for _, addr := range addrs {
			found, names = append(found, values.At(functionOf(sym, addr), addr, name)), append(names, name)
		}
	}
	return found, names
}

// Addresses returns the addresses in a module that a location denotes, and remarks on them for
// the user.
func Addresses(p *selection.Location, sym *elf.Module) (addrs []uint64, remarks []string, err error) {
	at := func(format string, args ...any) *plan.Error {
		return plan.Errorf(p.Name.Start, p.Name.Stop, format, args...)
	}
	switch {
	case p.Line > 0:
		return addressesOfLine(p, sym, at)
	case p.Function == "":
		return []uint64{p.Addr}, nil, nil
	}
	found := sym.Find(p.Function)
	if len(found) == 0 {
		e := at("no function named %s in %s", p.Function, sym.Name())
		if hint := inModule(p.Name.V.S); hint != "" {
			return nil, nil, e.WithHint("%s", hint)
		}
		if near := nearest([]*elf.Module{sym}, p.Function); len(near) > 0 {
			return nil, nil, e.WithHint("did you mean %s?", strings.Join(near, ", "))
		}
		return nil, nil, e
	}
	largest := uint64(0)
	for _, i := range found {
		entry, _ := sym.Entry(i)
		largest = max(largest, sym.Extent(i))
		if p.Addr < sym.Extent(i) {
			addrs = append(addrs, entry+p.Addr)
		}
	}
	if len(addrs) == 0 {
		return nil, nil, at("%s has only %d bytes (%#x)", p.Function, largest, largest)
	}
	return addrs, nil, nil
}

// inModule returns the hint for a name with a module before it, "" for another name.
func inModule(name string) string {
	module, name, ok := strings.Cut(name, "!")
	if !ok || module == "" || name == "" {
		return ""
	}
	return fmt.Sprintf("function_name = %s AND module = %s", quoted(name), quoted(module))
}

// quoted returns a text as it is written in a statement.
func quoted(s string) string { return (&plan.Const{V: types.Str(s)}).String() }

// addressesOfLine returns where the code of a source line begins. There are several places
// if the line was inlined or duplicated, and for the parts of a loop's head.
func addressesOfLine(p *selection.Location, sym *elf.Module, at func(string, ...any) *plan.Error) (addrs []uint64, remarks []string, err error) {
	source, err := sym.Source()
	if errors.Is(err, elf.ErrNoDebugInfo) {
		return nil, nil, at("the lines of %s are not known: it has no debug information", sym.Name()).
			WithHint("compile with -g, or install the debug file; help debuginfo")
	}
	if err != nil {
		return nil, nil, at("the lines of %s cannot be read: %v", sym.Name(), err)
	}
	found, files, other, err := source.Addresses(p.File, p.Line)
	switch {
	case err != nil:
		return nil, nil, at("the lines of %s cannot be read: %v", sym.Name(), err)
	case len(files) == 0:
		return nil, nil, at("%s was not compiled from a file called %s", sym.Name(), p.File).
			WithHint("a line is written as in 'parse.c:120', with the last folders where several files have that name")
	case len(found) == 0 && other > 0:
		return nil, nil, at("no code begins at line %d of %s", p.Line, files[0]).WithHint("the next line with code is '%s:%d'", p.File, other)
	case len(found) == 0:
		return nil, nil, at("no code begins at line %d of %s, nor after it", p.Line, files[0])
	}
	in := map[string]bool{}
	for _, a := range found {
		if _, _, ok := sym.Piece(a.Addr); !ok {
			if _, ok := sym.FunctionAt(a.Addr); !ok {
				continue // of code that the linker has left out
			}
		}
		in[a.File] = true
		addrs = append(addrs, a.Addr)
	}
	if len(addrs) == 0 {
		return nil, nil, at("line %d of %s has no code in a function of %s", p.Line, files[0], sym.Name())
	}
	if len(addrs) > 1 {
		remarks = append(remarks, fmt.Sprintf("the code of %s begins at %d places, each of which counts: %s", p.Name.V.S, len(addrs), listPlaces(sym, addrs)))
	}
	if len(in) > 1 {
		remarks = append(remarks, fmt.Sprintf("%s is a line of %d files: write more of the path to choose one, as in '%s'", p.Name.V.S, len(in), longer(found[0])))
	}
	return addrs, remarks, nil
}

// maxPlaces is how many places of a line are listed.
const maxPlaces = 6

// listPlaces lists addresses by their functions, as names of places.
func listPlaces(sym *elf.Module, addrs []uint64) string {
	var names []string
	for _, addr := range addrs[:min(len(addrs), maxPlaces)] {
		name := fmt.Sprintf("%#x", addr)
		if i, ok := sym.FunctionAt(addr); ok {
			entry, _ := sym.Entry(i)
			name = fmt.Sprintf("%s+%#x", sym.Function(i).Name, addr-entry)
		}
		names = append(names, name)
	}
	if n := len(addrs) - maxPlaces; n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

// longer returns a place with the file's last folder.
func longer(a debuginfo.LineAddress) string {
	dir, base := filepath.Split(a.File)
	return fmt.Sprintf("%s:%d", filepath.Join(filepath.Base(dir), base), a.Line)
}

// misplaced returns the error for an address at which no probe can be set.
func (r *resolver) misplaced(p *selection.Location, addr, start uint64, why error) *plan.Error {
	name := p.Name.V.S
	if p.Addr != addr || p.Function != "" {
		name = fmt.Sprintf("%s (%#x)", name, addr)
	}
	e := plan.Errorf(p.Name.Start, p.Name.Stop, "%s %v", name, why)
	var between *codesite.Between
	if !errors.As(why, &between) {
		return e
	}
	if p.Function != "" {
		return e.WithHint("'%s+%#x', or '%s+%#x' after it", p.Function, p.Addr-(addr-between.Begin), p.Function, p.Addr+between.Next-addr)
	}
	return e.WithHint("'%#x', or '%#x' after it", between.Begin, between.Next)
}

// refusePlaceColumns returns the error for a query that reads what a place does not have.
func (r *resolver) refusePlaceColumns(p *selection.Location) error {
	name := p.Name.V.S
	if r.returns {
		return r.refuseMarked(name)
	}
	for _, f := range r.spec.Out.Fields {
		if c := calls.ColumnByName[f.Name]; c >= calls.ColArg0 && c <= calls.ColArg0+abi.MaxArgs-1 {
			return plan.Errorf(p.Name.Start, p.Name.Stop, "%s is a place in the code, where %s is not known", name, f.Name).
				WithHint("args.NAME is a variable that lives there")
		}
	}
	return nil
}

// unplacedError returns the error of the first place that was not found; nil: all were.
func (r *resolver) unplacedError() error {
	for _, p := range r.sel.Locations {
		if name := p.Name.V.S; !r.found[name] && r.unplaced[name] != nil {
			return r.unplaced[name]
		}
	}
	return nil
}

// inAll returns the notice about the files that are observed in all processes.
func inAll(set *selection.ModuleSet) string {
	users := map[int]bool{}
	for _, m := range set.List {
		for _, pl := range m.Mapped {
			users[pl.Process.PID] = true
		}
	}
	said := "all processes that load it are observed, those that start later included"
	if len(set.List) > 1 {
		said = "all processes that load one of them are observed, those that start later included"
	}
	switch len(users) {
	case 0:
		return said + "; now there is none"
	case 1:
		return said + "; now there is 1"
	}
	return fmt.Sprintf("%s; now there are %d", said, len(users))
}
