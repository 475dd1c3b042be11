package calls

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
)

// errUninitialised is the error of a variable before the line that initialises it.
var errUninitialised = errors.New("is initialised later")

// PlaceValues returns how values are read at instructions of a module: args.NAME is the
// variable or parameter that lives there.
type PlaceValues struct {
	sym    *elf.Module
	vs     []*Value
	info   *signature.Info
	err    error                   // why there are no variables
	bodies map[int]*signature.Body // by function
}

// OpenPlaceValues reads a module's debug information if a value needs it.
func OpenPlaceValues(sym *elf.Module, vs []*Value) *PlaceValues {
	p := &PlaceValues{sym: sym, vs: vs, bodies: map[int]*signature.Body{}}
	if AnyNamed(vs) {
		p.info, p.err = signature.Open(sym)
	}
	return p
}

// At returns how the values are read at an instruction of function i, which the query calls
// name.
func (p *PlaceValues) At(i int, addr uint64, name string) []FunctionValue {
	out := make([]FunctionValue, len(p.vs))
	for k, v := range p.vs {
		if v == nil {
			continue
		}
		if len(v.Path) == 0 || v.Result || strings.Contains(v.Name, "(") {
			out[k].err = plan.Errorf(-1, -1, "%s is a place in the code, where %s is not known", name, v.Name).
				WithHint("args.NAME is a variable that lives there")
			continue
		}
		body, err := p.body(i)
		if err != nil {
			out[k].err = withoutTypes(p.sym, name, err)
			continue
		}
		if has := body.Variables(); !slices.Contains(has, v.Path[0]) {
			out[k].none = true
			e := plan.Errorf(-1, -1, "%s has no variable %s", name, v.Path[0])
			if near := plan.Nearest(v.Path[0], has, 2); len(near) > 0 {
				e = e.WithHint("did you mean %s?", strings.Join(near, " or "))
			}
			out[k].err = e
			continue
		}
		if out[k].Value, err = v.readAs(p.reading(body, addr), signature.Where{MaxText: v.limit}); err != nil {
			out[k].err = plan.Errorf(-1, -1, "%s of %s %v", v.Name, name, err)
		}
	}
	return out
}

func (p *PlaceValues) body(i int) (*signature.Body, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case i < 0:
		return nil, errors.New("is in no function that is known")
	}
	if b := p.bodies[i]; b != nil {
		return b, nil
	}
	b, err := p.info.Body(p.sym, i)
	if err == nil {
		p.bodies[i] = b
	}
	return b, err
}

// reading returns what finds a variable at an instruction.
func (p *PlaceValues) reading(b *signature.Body, addr uint64) func([]string, signature.Where) (signature.Value, error) {
	return func(path []string, at signature.Where) (signature.Value, error) {
		rule, ok := p.sym.UnwindRule(addr)
		if !ok || rule.CFAExpr != nil {
			return signature.Value{}, errors.New("is in a frame that cannot be found: there is no unwind information")
		}
		live, err := b.At(path, addr, signature.Frame{Register: int(rule.CFAReg), Offset: rule.CFAOffset}, at)
		switch {
		case err != nil:
			return signature.Value{}, err
		case live.Declared != 0 && addr <= live.Declared:
			return signature.Value{}, errUninitialised
		case live.Length != nil:
			return signature.Value{}, fmt.Errorf("is an element of a slice, which is not read at a place in the code")
		}
		return live.Value, nil
	}
}
