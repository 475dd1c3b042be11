package process

import (
	"path/filepath"
	"slices"

	"endoscope/planner/plan"

	"golang.org/x/sys/unix"
)

// commBytes is the longest name the kernel keeps (TASK_COMM_LEN - 1).
const commBytes = 15

// TruncateComm cuts a process or thread name as the kernel does, so that a full
// name matches what /proc and eBPF programs report.
func TruncateComm(name string) string {
	if len(name) > commBytes {
		return name[:commBytes]
	}
	return name
}

// Matcher matches processes against a target's names, executables and containers, including
// processes that start later. It ignores the target's pids.
//
// An executable is matched by path and by file: the same path may be another
// file (upgraded since, deleted, seen through an overlay or in a container),
// and the same file may have another path.
type Matcher struct {
	viewer *plan.Viewer
	comms  []string
	paths  []string
	files  []FileID
	within []plan.ContainerIs
}

// NewMatcher returns a matcher for t's names, executables and containers. Files are
// identified as they are now.
func NewMatcher(t plan.Target) *Matcher {
	m := &Matcher{viewer: t.Viewer, within: t.Containers}
	for _, name := range t.Processes {
		m.comms = append(m.comms, TruncateComm(name))
	}
	for _, exe := range t.Exes {
		m.paths = append(m.paths, filepath.Clean(exe))
		if abs, err := filepath.Abs(exe); err == nil {
			m.paths = append(m.paths, abs)
			if real, err := filepath.EvalSymlinks(abs); err == nil {
				m.paths = append(m.paths, real)
			}
		}
		var st unix.Stat_t
		if unix.Stat(exe, &st) == nil {
			m.files = append(m.files, FileID{st.Dev, st.Ino})
			if f, err := OpenExe(exe); err == nil {
				if id, err := MappedID(f); err == nil && id != m.files[len(m.files)-1] {
					m.files = append(m.files, id)
				}
				f.Close()
			}
		}
	}
	return m
}

// MatchesProgram reports whether a process that executed p, and may have ended, matches.
func (m *Matcher) MatchesProgram(p *Program) bool {
	return p != nil && (slices.Contains(m.comms, p.Comm) || p.Exe != "" && slices.Contains(m.paths, p.Exe) || slices.Contains(m.files, p.File))
}

// Matches reports whether p, in its current state, matches and is visible.
func (m *Matcher) Matches(p Process) bool {
	return m.matchesNow(p) && Visible(m.viewer, p.PID)
}

// Contains reports whether process pid runs in one of the containers.
func (m *Matcher) Contains(pid int) bool {
	if len(m.within) == 0 {
		return false
	}
	c := ContainerOf(pid)
	return c != nil && slices.ContainsFunc(m.within, c.Is)
}

func (m *Matcher) matchesNow(p Process) bool {
	if slices.Contains(m.comms, p.Comm) || p.Exe != "" && slices.Contains(m.paths, p.Exe) || m.Contains(p.PID) {
		return true
	}
	if len(m.files) == 0 {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(path(p.PID, "exe"), &st) == nil && slices.Contains(m.files, FileID{st.Dev, st.Ino})
}
