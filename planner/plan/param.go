package plan

import "endoscope/planner/types"

// Param is what is known of a parameter of a statement that is planned without
// values, to say what it would give: it counts as NULL, and takes the type of
// wherever it stands.
type Param struct {
	asked bool
	typ   types.Type
}

// As notes a type that the parameter takes somewhere.
func (p *Param) As(t types.Type) {
	switch {
	case p == nil || t == types.Null:
	case !p.asked:
		p.asked, p.typ = true, t
	case p.typ != t:
		p.typ = types.Null
	}
}

// Type is the one type that the parameter takes; Null: any, or several.
func (p *Param) Type() types.Type {
	if p == nil || !p.asked {
		return types.Null
	}
	return p.typ
}
