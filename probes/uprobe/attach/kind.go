package attach

import "endoscope/planner/plan"

// Kind is a way to attach a query's programs. The programs are the same for every kind.
type Kind uint8

// Kinds of link, best first. All can be requested (SET probe_links).
const (
	// Session: one link for all sites of a module. One program handles entries and
	// returns; returns are trapped only for the calls it selects.
	Session Kind = iota
	// Multi: one link for all sites, two where returns are observed. The kernel traps
	// the return of every call.
	Multi
	// Perf: as Multi, but with a perf event and a link for every site. The kernel
	// detaches them one after the other.
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

// Needs returns the kernel feature that links of this kind require.
func (k Kind) Needs() Feature {
	switch k {
	case Session:
		return FeatureSession
	case Multi:
		return FeatureMulti
	}
	return FeaturePerf
}

// AttachType returns the kernel's attach type of a link to entries, or to returns alone.
func (k Kind) AttachType() uint32 {
	if k == Perf {
		return TypePerf
	}
	return TypeMulti
}

// ScopesProcess reports whether a link of this kind can be restricted to a process, so
// that other processes pay nothing.
func (k Kind) ScopesProcess() bool { return k != Perf && FeatureProcess.Has() }

// ChooseKind returns the requested kind, or the best available one if none is requested.
func ChooseKind(spec *plan.Acquire, wanted string, has func(Kind) bool) (Kind, error) {
	for k := Session; k <= Perf; k++ {
		if wanted != "" && wanted != k.String() || wanted == "" && !has(k) {
			continue
		}
		if !has(k) {
			f := k.Needs()
			return 0, plan.Errorf(spec.Start, spec.Stop, "this kernel has no %s, which came with Linux %s", f.Name, f.Since).
				WithHint("SET probe_links = auto uses what the kernel supports")
		}
		return k, nil
	}
	if wanted != "" {
		return 0, plan.Errorf(spec.Start, spec.Stop, "there are no links of the kind %s", wanted)
	}
	_, err := perfUprobes()
	return 0, noKind(spec, err)
}

// noKind returns the error of a kernel that has no kind of link. noEvents is why it has no
// perf events of uprobes; nil if it has them.
func noKind(spec *plan.Acquire, noEvents error) error {
	if noEvents != nil {
		return plan.Errorf(spec.Start, spec.Stop, "%s needs uprobes, which this kernel does not have", spec.Stream).
			WithHint("Linux %s or newer, built with CONFIG_UPROBE_EVENTS; stack_sample takes no uprobes", FeaturePerf.Since)
	}
	return plan.Errorf(spec.Start, spec.Stop, "%s needs Linux %s or newer: this kernel has no %s", spec.Stream, FeaturePerf.Since, FeaturePerf.Name).
		WithHint("stack_sample takes no uprobes")
}
