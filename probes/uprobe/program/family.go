package program

import (
	"sync/atomic"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
)

// Family says what becomes of the children of a query's processes.
type Family struct {
	Processes []process.Process // whose children matter
	// Follows: children are observed too, and these processes whatever becomes of their names.
	// Otherwise children are counted.
	Follows bool
	// StandsBy: children are counted from when the query begins.
	StandsBy bool
}

// Values of the map family (target.h).
const (
	memberItself = 0
	memberChild  = 1
)

// maxFamily is the maximum number of processes that a query follows or counts at a time.
const maxFamily = 1 << 16

// family is the Family of an installation.
type family struct {
	Family
	links   []*attach.Link
	existed atomic.Uint64 // children that ran when the query began, if they are not followed
}

// specialise sets up spec for a family, nil for none. replace receives a replacement for its
// map if that is not used.
func (f *Family) specialise(k *Kernel, spec *ebpf.CollectionSpec, replace map[string]*ebpf.Map) error {
	if f == nil {
		replace[bpf.FunctionMapFamily] = k.unused[bpf.FunctionMapFamily]
		return nil
	}
	spec.Maps[bpf.FunctionMapFamily].MaxEntries = maxFamily
	return spec.Variables[bpf.FunctionVarFollows].Set(f.Follows)
}

// FollowChildren makes the programs follow or count the children of the query's processes,
// those that run already included. No function is probed yet.
func (in *Installation) FollowChildren() error {
	if in.family == nil {
		return nil
	}
	f := in.family
	members := in.Objects.Maps[bpf.FunctionMapFamily]
	watch := func(program, tracepoint string) error {
		l, err := attach.Tracepoint(in.Objects.Programs[program], tracepoint)
		if err == nil {
			f.links = append(f.links, l)
		}
		return err
	}
	// A process that ends while it is noted is removed by the program, or found here to have
	// ended.
	note := func(p process.Process, value uint32) (added bool) {
		if members.Update(uint32(p.PID), value, ebpf.UpdateNoExist) != nil {
			return false // the program has noted it
		}
		if q, runs := process.Lookup(p.PID); !runs || q.StartTime != p.StartTime {
			_ = members.Delete(uint32(p.PID))
			return false
		}
		return true
	}
	if err := watch(bpf.FunctionProgProcessEnded, "sched_process_exit"); err != nil {
		return err
	}
	var pids []int
	for _, p := range f.Processes {
		note(p, memberItself)
		pids = append(pids, p.PID)
	}
	if err := watch(bpf.FunctionProgProcessBegan, "sched_process_fork"); err != nil {
		return err
	}
	// A process that was not noted yet may have forked meanwhile.
	known := map[int]bool{}
	for again := true; again; {
		again = false
		for _, pid := range process.Descendants(pids) {
			if known[pid] {
				continue
			}
			known[pid], again = true, true
			if p, runs := process.Lookup(pid); runs && note(p, memberChild) && !f.Follows && !f.StandsBy {
				f.existed.Add(1)
			}
		}
	}
	return nil
}

// CountChildren counts the children that run when a query begins that stood by.
func (in *Installation) CountChildren() {
	if in.family != nil {
		in.family.existed.Store(in.Unobserved())
	}
}

// Unobserved returns the number of children that run and are not observed.
func (in *Installation) Unobserved() (n uint64) {
	if in.family == nil || in.family.Follows {
		return 0
	}
	var pid, value uint32
	for each := in.Objects.Maps[bpf.FunctionMapFamily].Iterate(); each.Next(&pid, &value); {
		if value&memberChild != 0 {
			n++
		}
	}
	return n
}

// HasMember reports whether a process is one of Family.
func (in *Installation) HasMember(pid int) bool {
	var value uint32
	return in.family != nil && in.Objects.Maps[bpf.FunctionMapFamily].Lookup(uint32(pid), &value) == nil
}

// Family returns the processes by pid and the children that run.
func (in *Installation) Family() (pids []int) {
	if in.family == nil {
		return nil
	}
	var pid, value uint32
	for each := in.Objects.Maps[bpf.FunctionMapFamily].Iterate(); each.Next(&pid, &value); {
		pids = append(pids, int(pid))
	}
	return pids
}
