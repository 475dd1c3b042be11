package attach

import "endoscope/planner/plan"

// Kind is a way to attach a query's programs, which are the same in each.
type Kind uint8

// Kinds of link, the best first. All can be asked for (SET probe_links).
const (
	// Session: one link for all sites of a module; returns in one program
	// with entries, and trapped only for calls that it wants.
	Session Kind = iota
	// Multi: one link for all sites, two where returns are observed. The
	// kernel traps every call's return.
	Multi
	// Perf: as Multi, but a perf event and a link for every single
	// site, which the kernel detaches one after the other.
	Perf
)

func (k Kind) String() string {
	switch k {
	case Session:
		return "session"
	case Multi:
		return "multi"
	}
	return "perf"
}

// Needs is what the kernel must have for links of that kind.
func (k Kind) Needs() Feature {
	switch k {
	case Session:
		return FeatureSession
	case Multi:
		return FeatureMulti
	}
	return FeaturePerf
}

// AttachType is the kernel's name of a link to entries, or to returns alone.
func (k Kind) AttachType() uint32 {
	if k == Perf {
		return TypePerf
	}
	return TypeMulti
}

// ScopesProcess reports whether such a link can be restricted to a process, so
// that others pay nothing.
func (k Kind) ScopesProcess() bool { return k != Perf && FeatureProcess.Has() }

// ChooseKind is the kind that is wanted, or without a wish the best one.
func ChooseKind(spec *plan.Acquire, wanted string, has func(Kind) bool) (Kind, error) {
	for k := Session; k <= Perf; k++ {
		if wanted != "" && wanted != k.String() || wanted == "" && !has(k) {
			continue
		}
		if !has(k) {
			f := k.Needs()
			return 0, plan.Errorf(spec.Start, spec.Stop, "this kernel has no %s, which came with Linux %s", f.Name, f.Since).
				WithHint("SET probe_links = auto takes what the kernel has")
		}
		return k, nil
	}
	if wanted != "" {
		return 0, plan.Errorf(spec.Start, spec.Stop, "there are no links of the kind %s", wanted)
	}
	return 0, plan.Errorf(spec.Start, spec.Stop, "%s needs Linux %s or newer: this kernel has no %s", spec.Stream, FeaturePerf.Since, FeaturePerf.Name)
}
