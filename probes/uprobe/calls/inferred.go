package calls

import "endoscope/probes/uprobe/selection"

// Inferred is a selected function of one module in one scope that has no probe,
// because its calls follow from those of others.
type Inferred struct {
	Module *selection.Module
	Label  Label
	Entry  uint64 // file offset
	Sum    []Summand
	// Withdrawn: one of those is not probed after all, and this one not counted.
	Withdrawn bool
}

// Summand is a function with a probe, each call of which brings so many of the
// inferred one.
type Summand struct{ Want, Times int }

// Share is what a call of a function with a probe brings: so many of an inferred
// one, which is numbered behind the wants.
type Share struct{ Function, Times int }

// SharesOf lists by want what its calls bring; nil where nothing is inferred.
func SharesOf(ws []Function, list []Inferred) [][]Share {
	if len(list) == 0 {
		return nil
	}
	out := make([][]Share, len(ws))
	for k, f := range list {
		if f.Withdrawn {
			continue
		}
		for _, s := range f.Sum {
			out[s.Want] = append(out[s.Want], Share{len(ws) + k, s.Times})
		}
	}
	return out
}
