package plan

import "endoscope/planner/types"

// Param is a parameter of a statement that is planned without values, to describe its
// result: it counts as NULL, and gets the types required where it is used.
type Param struct {
	asked bool
	typ   types.Type
}

// As records a type that the parameter has somewhere.
func (p *Param) As(t types.Type) {
	switch {
	case p == nil || t == types.Null:
	case !p.asked:
		p.asked, p.typ = true, t
	case p.typ != t:
		p.typ = types.Null
	}
}

// Type returns the single type of the parameter; Null: any, or several.
func (p *Param) Type() types.Type {
	if p == nil || !p.asked {
		return types.Null
	}
	return p.typ
}
