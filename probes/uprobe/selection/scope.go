package selection

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/abi"
)

// Scope says of which processes a probe's events are wanted.
type Scope struct {
	PID   int    // of which the link is restricted; 0: none
	Flags uint32 // OnlyTargets, if the program has to look
	Exe   string // of the processes, if that is the module itself
	Key   string // equal for equal scopes
}

// PidScope is one process, to which the link is restricted: others of the same
// file pay nothing. It is for entries only. A forked child keeps the
// breakpoints of its parent, and for a process other than the link's the kernel
// does not run the program but sets the return trap all the same. Without our
// check of the stack that killed a child which switched stacks.
func PidScope(pl Place) *Scope {
	return &Scope{PID: pl.Process.PID, Exe: OwnExe([]Place{pl}), Key: fmt.Sprintf("pid %d", pl.Process.PID)}
}

// OwnExe is the path by which all these processes run the module as their
// executable, "" if there is none.
func OwnExe(in []Place) string {
	exe := ""
	for i, pl := range in {
		if pl.Mapping.Path != pl.Process.Exe || i > 0 && pl.Process.Exe != exe {
			return ""
		}
		exe = pl.Process.Exe
	}
	return exe
}

// Members are the processes that the target means, those that start later
// included, and by what they are known.
func Members(t plan.Target, running []process.Process) (list []bpf.FunctionTarget, only uint32) {
	for _, pid := range t.PIDs {
		list = append(list, pidTarget(pid))
		only |= abi.OnlyPIDs
	}
	for _, name := range t.Processes {
		list = append(list, commTarget(name))
		only |= abi.OnlyComms
	}
	if len(t.Exes) == 0 {
		return list, only
	}
	only |= abi.OnlyExes
	files := map[process.FileID]bool{}
	note := func(id process.FileID) {
		if !files[id] {
			files[id] = true
			list = append(list, exeTarget(id.Dev, id.Inode))
		}
	}
	add := func(path string) {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			note(process.FileID{Dev: st.Dev, Inode: st.Ino})
		}
		// The program compares what the kernel knows, not what stat says.
		f, err := process.OpenExe(path)
		if err != nil {
			return
		}
		defer f.Close()
		if id, err := process.MappedID(f); err == nil {
			note(process.FileID{Dev: id.Dev, Inode: id.Inode})
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
	return list, only
}

// KeyOf names a set of processes.
func KeyOf(members []bpf.FunctionTarget) string {
	keys := make([]string, len(members))
	for i, m := range members {
		keys[i] = fmt.Sprintf("%d:%x:%x", m.Kind, m.Id[0], m.Id[1])
	}
	sort.Strings(keys)
	return strings.Join(keys, " ")
}

func pidTarget(pid int) bpf.FunctionTarget {
	return bpf.FunctionTarget{Kind: abi.TargetPID, Id: [2]uint64{uint64(pid)}}
}

func commTarget(name string) bpf.FunctionTarget {
	var b [16]byte
	copy(b[:], process.TruncateComm(name))
	return bpf.FunctionTarget{Kind: abi.TargetComm, Id: [2]uint64{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}}
}

// exeTarget takes a device number as stat gives it, which is not as the
// kernel keeps it (include/linux/kdev_t.h).
func exeTarget(dev, ino uint64) bpf.FunctionTarget {
	return bpf.FunctionTarget{Kind: abi.TargetExe, Id: [2]uint64{uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev)), ino}}
}
