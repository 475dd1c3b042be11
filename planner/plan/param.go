package plan

import "endoscope/operators/batch"

// Param is what is known of a parameter of a statement that is planned without
// values, to say what it would give: it counts as NULL, and takes the type of
// wherever it stands.
type Param struct {
	asked bool
	typ   batch.Type
}

// As notes a type that the parameter takes somewhere.
func (p *Param) As(t batch.Type) {
	switch {
	case p == nil || t == batch.Null:
	case !p.asked:
		p.asked, p.typ = true, t
	case p.typ != t:
		p.typ = batch.Null
	}
}

// Type is the one type that the parameter takes; Null: any, or several.
func (p *Param) Type() batch.Type {
	if p == nil || !p.asked {
		return batch.Null
	}
	return p.typ
}
