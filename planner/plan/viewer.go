package plan

import "fmt"

// Viewer is the user on whose behalf processes are observed. Those that they
// may not observe do not exist for them. nil: the engine's own user, who may
// observe whatever the kernel lets it.
type Viewer struct {
	// Name is under what the engine lists what they run; "": they see all that runs.
	Name string
	// Any: every process.
	Any bool
	// Local: UID and GIDs are a user of this machine, who may observe the
	// processes that they could ptrace.
	Local bool
	UID   uint32
	GIDs  []uint32 // of all their groups
	// Users and Cgroups are whose processes they may observe besides: by user id
	// (real, effective and saved), and by cgroup (paths below /sys/fs/cgroup, with
	// what is below them).
	Users   []uint32
	Cgroups []string
	// Shared: probes may be attached for all processes that execute a file.
	// Without it they are attached for one process each, and no other pays.
	Shared bool
}

// Everything reports whether nothing is hidden.
func (v *Viewer) Everything() bool { return v == nil || v.Any }

// Private reports whether probes must be restricted to single processes.
func (v *Viewer) Private() bool { return v != nil && !v.Shared }

// Identity is equal for viewers who may observe the same in the same way.
func (v *Viewer) Identity() string {
	if v == nil {
		return ""
	}
	if v.Any {
		return fmt.Sprintf("any %t", v.Shared)
	}
	return fmt.Sprintf("%t %d %v %v %q %t", v.Local, v.UID, v.GIDs, v.Users, v.Cgroups, v.Shared)
}
