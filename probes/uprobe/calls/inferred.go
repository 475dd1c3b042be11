package calls

import "endoscope/probes/uprobe/selection"

// Inferred is a selected function of one module in one scope that has no probe,
// because its calls follow from those of others.
type Inferred struct {
	Module *selection.Module
	Label  Label
	Entry  uint64 // file offset
	Sum    []Summand
	// Withdrawn: a function of Sum is not probed after all, so this one is not
	// counted.
	Withdrawn bool
}

// Summand is a function with a probe; each call of it implies Times calls of the
// inferred function.
type Summand struct{ Want, Times int }

// Share says that a call of a probed function implies Times calls of an inferred one.
// Inferred functions are numbered after the probed ones.
type Share struct{ Function, Times int }

// SharesOf returns, by probed function, the calls that it implies; nil where nothing
// is inferred.
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
