package uprobe

import (
	"fmt"
	"sort"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/process"

	"golang.org/x/sys/unix"
)

// scope says of which processes a probe's events are wanted.
type scope struct {
	pid     int                  // of which the link is restricted; 0: none
	flags   uint32               // onlyPIDs, onlyComms, onlyExes: what the program tests
	members []bpf.FunctionTarget // any of them; their Scope is set when attached
	exe     string               // of the processes, if that is the module itself
	key     string               // equal for equal scopes
}

// pidScope is one process. For entries the link is restricted to it, so that
// other processes of the same file pay nothing.
//
// For returns the program must decide: a forked child keeps the breakpoints of
// its parent, and for a process other than the link's the kernel does not run
// the program but sets the return trap all the same. Without our check of the
// stack that killed a child which switched stacks.
func pidScope(pl place, returns bool) *scope {
	p := pl.process
	s := &scope{key: fmt.Sprintf("pid %d since %d", p.PID, p.StartTime)}
	if pl.mapping.Path == p.Exe {
		s.exe = p.Exe
	}
	if !returns && linkFiltersProcess() {
		s.pid = p.PID
		return s
	}
	s.flags = onlyPIDs
	s.members = []bpf.FunctionTarget{pidTarget(p.PID)}
	return s
}

// targetScope is what the target means, processes that start later included.
func targetScope(t plan.Target, running []process.Process) *scope {
	s := &scope{}
	for _, pid := range t.PIDs {
		s.members = append(s.members, pidTarget(pid))
		s.flags |= onlyPIDs
	}
	for _, name := range t.Processes {
		s.members = append(s.members, commTarget(name))
		s.flags |= onlyComms
	}
	if len(t.Exes) > 0 {
		s.flags |= onlyExes
		files := map[fileID]bool{}
		add := func(path string) {
			var st unix.Stat_t
			if unix.Stat(path, &st) == nil && !files[fileID{st.Dev, st.Ino}] {
				files[fileID{st.Dev, st.Ino}] = true
				s.members = append(s.members, exeTarget(st.Dev, st.Ino))
			}
		}
		for _, exe := range t.Exes {
			add(exe)
		}
		// A path may be run as several files: upgraded since, deleted, seen
		// through an overlay.
		m := process.NewMatcher(plan.Target{Exes: t.Exes})
		for _, p := range running {
			if m.Matches(p) {
				add(fmt.Sprintf("/proc/%d/exe", p.PID))
			}
		}
	}
	keys := make([]string, len(s.members))
	for i, m := range s.members {
		keys[i] = fmt.Sprintf("%d:%x:%x", m.Kind, m.Id[0], m.Id[1])
	}
	sort.Strings(keys)
	s.key = "any " + strings.Join(keys, " ")
	return s
}

func pidTarget(pid int) bpf.FunctionTarget {
	return bpf.FunctionTarget{Kind: targetPID, Id: [2]uint64{uint64(pid)}}
}

func commTarget(name string) bpf.FunctionTarget {
	var b [16]byte
	copy(b[:], process.TruncateComm(name))
	return bpf.FunctionTarget{Kind: targetComm, Id: [2]uint64{le64(b[:8]), le64(b[8:])}}
}

// exeTarget takes a device number as stat gives it, which is not as the
// kernel keeps it (include/linux/kdev_t.h).
func exeTarget(dev, ino uint64) bpf.FunctionTarget {
	return bpf.FunctionTarget{Kind: targetExe, Id: [2]uint64{uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev)), ino}}
}
