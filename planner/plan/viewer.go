package plan

import "fmt"

// Viewer is the user on whose behalf processes are observed. It restricts which processes
// are observed: others do not exist for this user. nil means the engine's own user, who may
// observe whatever the kernel allows.
type Viewer struct {
	// Name is the owner under which the engine lists this user's queries; "": this user
	// sees the queries of all.
	Name string
	// Any: every process may be observed.
	Any bool
	// Local: UID and GIDs are a user of this machine, who may observe the processes that
	// they could ptrace.
	Local bool
	UID   uint32
	GIDs  []uint32 // of all their groups
	// Users and Cgroups are additional processes they may observe: by user id (real,
	// effective and saved), and by cgroup (paths below /sys/fs/cgroup, including their
	// descendants).
	Users   []uint32
	Cgroups []string
	// Shared: probes may be attached for all processes that execute a file. Without it they
	// are attached per process, and other processes have no cost.
	Shared bool
}

// Everything reports whether all processes are visible.
func (v *Viewer) Everything() bool { return v == nil || v.Any }

// Private reports whether probes must be restricted to single processes.
func (v *Viewer) Private() bool { return v != nil && !v.Shared }

// Identity returns equal texts for viewers with equal permissions.
func (v *Viewer) Identity() string {
	if v == nil {
		return ""
	}
	if v.Any {
		return fmt.Sprintf("any %t", v.Shared)
	}
	return fmt.Sprintf("%t %d %v %v %q %t", v.Local, v.UID, v.GIDs, v.Users, v.Cgroups, v.Shared)
}
