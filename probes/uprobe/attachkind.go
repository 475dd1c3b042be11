package uprobe

import "endoscope/planner/plan"

// linkKind is a way to attach a query's programs, which are the same in each.
type linkKind uint8

// Kinds of link, the best first. All can be asked for (SET probe_links).
const (
	// linkSession: one link for all sites of a module; returns in one program
	// with entries, and trapped only for calls that it wants.
	linkSession linkKind = iota
	// linkMulti: one link for all sites, two where returns are observed. The
	// kernel traps every call's return.
	linkMulti
	// linkPerf: as linkMulti, but a perf event and a link for every single
	// site, which the kernel detaches one after the other.
	linkPerf
)

func (k linkKind) String() string {
	switch k {
	case linkSession:
		return "session"
	case linkMulti:
		return "multi"
	}
	return "perf"
}

// needs is what the kernel must have for links of that kind.
func (k linkKind) needs() feature {
	switch k {
	case linkSession:
		return featureSession
	case linkMulti:
		return featureMulti
	}
	return featurePerf
}

// attachType is the kernel's name of a link to entries, or to returns alone.
func (k linkKind) attachType() uint32 {
	if k == linkPerf {
		return attachPerf
	}
	return attachMulti
}

// scopesProcess reports whether such a link can be restricted to a process, so
// that others pay nothing.
func (k linkKind) scopesProcess() bool { return k != linkPerf && featureProcess.has() }

// chooseLinks is the kind that is wanted, or without a wish the best one.
func chooseLinks(spec *plan.Acquire, wanted string, has func(linkKind) bool) (linkKind, error) {
	for k := linkSession; k <= linkPerf; k++ {
		if wanted != "" && wanted != k.String() || wanted == "" && !has(k) {
			continue
		}
		if !has(k) {
			f := k.needs()
			return 0, plan.Errorf(spec.Start, spec.Stop, "this kernel has no %s, which came with Linux %s", f.name, f.since).
				WithHint("SET probe_links = auto takes what the kernel has")
		}
		return k, nil
	}
	if wanted != "" {
		return 0, plan.Errorf(spec.Start, spec.Stop, "there are no links of the kind %s", wanted)
	}
	return 0, plan.Errorf(spec.Start, spec.Stop, "%s needs Linux %s or newer: this kernel has no %s", spec.Stream, featurePerf.since, featurePerf.name)
}
