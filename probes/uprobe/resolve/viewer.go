package resolve

import (
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
)

// restrictReturns returns how returns are observed where probes must be restricted to single
// processes, or are in all: not by traps, which are set in every process that executes the file
// (see PIDScope), and abort a program whose exception passes. by is the method that was
// requested.
func restrictReturns(spec *plan.Acquire, links attach.Kind, by plan.ReturnProbes) (plan.ReturnProbes, error) {
	t := spec.Target
	if len(t.Files) > 0 && !t.Viewer.Private() {
		if by == plan.TrapReturns {
			return by, plan.Errorf(spec.Start, spec.Stop, "return traps may harm processes that start later, and %s is observed in all", t).
				WithHint("SET return_probes = 'auto'")
		}
		return plan.ExitReturns, nil
	}
	if !t.Viewer.Private() {
		return by, nil
	}
	switch {
	case len(t.Files) > 0:
		return by, plan.Errorf(spec.Start, spec.Stop, "probes in all processes that load a file need the grant \"shared\"").
			WithHint("WHERE pid = N")
	case t.Follow:
		return by, plan.Errorf(spec.Start, spec.Stop, "probes of children are set in every process that executes the file, which needs the grant \"shared\"").
			WithHint("SET follow = 'none'")
	case t.Grows():
		return by, plan.Errorf(spec.Start, spec.Stop, "probes for whatever process bears a name need the grant \"shared\"").
			WithHint("WHERE pid = N")
	case !links.ScopesProcess():
		return by, plan.Errorf(spec.Start, spec.Stop, "probes cannot be restricted to one process on this kernel, and others need the grant \"shared\"").
			WithHint("SET probe_links = auto; Linux %s is required", attach.FeatureProcess.Since)
	case by == plan.TrapReturns:
		return by, plan.Errorf(spec.Start, spec.Stop, "return traps are set in every process that executes the file, which needs the grant \"shared\"").
			WithHint("SET return_probes = 'auto'")
	}
	return plan.ExitReturns, nil
}

// visibility returns what programs need to know about the processes that their query's user
// may observe: members of their targets, and levels of cgroups; nothing if the user
// may observe all.
func visibility(v *plan.Viewer) (who []bpf.FunctionTarget, levels uint32) {
	if v.Everything() {
		return nil, 0
	}
	add := func(kind, id uint64) {
		who = append(who, bpf.FunctionTarget{Kind: kind, Id: [2]uint64{id}})
	}
	switch {
	case v.Local && v.UID == 0:
		add(abi.TargetRoot, 0)
	case v.Local:
		add(abi.TargetOwner, uint64(v.UID))
		for _, gid := range v.GIDs {
			add(abi.TargetGroup, uint64(gid))
		}
	}
	for _, uid := range v.Users {
		add(abi.TargetUser, uint64(uid))
	}
	for _, path := range v.Cgroups {
		if id, level, ok := process.CgroupID(path); ok && level < maxCgroupLevel {
			add(abi.TargetCgroup, id)
			levels |= 1 << level
		}
	}
	if len(who) == 0 {
		// An empty viewer restricts to no process, not to all: no process has this
		// user.
		add(abi.TargetUser, 1<<32)
	}
	return who, levels
}

// maxCgroupLevel bounds the level at which programs search for a cgroup
// (MAX_CGROUP_LEVEL).
const maxCgroupLevel = 16
