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

// Scope restricts a probe's events to a set of processes.
type Scope struct {
	PID   int    // the process that the link is restricted to; 0: none
	Flags uint32 // OnlyTargets, if the program has to check the process
	Exe   string // the processes' executable, if that is the module itself
	Key   string // equal for equal scopes
}

// PidScope returns the scope of one process. The link is restricted to it: other
// processes of the same file have no overhead. It is for entries only. A forked child
// keeps the breakpoints of its parent, and for a process other than the link's the
// kernel does not run the program but sets the return trap all the same. Our check of
// the stack is skipped then, and a child that switched stacks was killed.
func PidScope(pl Place) *Scope {
	return &Scope{PID: pl.Process.PID, Exe: OwnExe([]Place{pl}), Key: fmt.Sprintf("pid %d", pl.Process.PID)}
}

// OwnExe returns the path by which all these processes run the module as their
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

// Members returns the processes that the target refers to, including those that start
// later, and the flags of the properties that identify them.
func Members(t plan.Target, running []process.Process) (list []bpf.FunctionTarget, only uint32) {
	if !t.Follow { // else the programs keep a list: program.Family
		for _, pid := range t.PIDs {
			list = append(list, pidTarget(pid))
			only |= abi.OnlyPIDs
		}
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
		// The program compares the kernel's own values, which differ from those of
		// stat.
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
	// A path may be executed as several files: replaced by an upgrade, deleted, or
	// seen through an overlay.
	m := process.NewMatcher(plan.Target{Exes: t.Exes})
	for _, p := range running {
		if m.Matches(p) {
			add(fmt.Sprintf("/proc/%d/exe", p.PID))
		}
	}
	return list, only
}

// KeyOf returns a key for a set of processes.
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

// exeTarget converts a device number from the format of stat to the kernel's internal
// format (include/linux/kdev_t.h).
func exeTarget(dev, ino uint64) bpf.FunctionTarget {
	return bpf.FunctionTarget{Kind: abi.TargetExe, Id: [2]uint64{uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev)), ino}}
}
