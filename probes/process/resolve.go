package process

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/container"
)

// Resolve returns the running processes of t, by pid, each once. The entries of
// t are alternatives. An executable that no process runs is no error, since it
// may be started later; it yields no process. Processes that t's viewer may not
// observe do not exist. Refusals are *plan.Error located at t.
func Resolve(t plan.Target) ([]Process, error) {
	var out []Process
	for _, pid := range t.PIDs {
		p, err := resolvePID(t, pid)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if t.Grows() || len(t.Files) > 0 {
		all, err := ListFor(t.Viewer)
		if err != nil {
			return nil, refuse(t, "processes cannot be listed: %v", err)
		}
		for _, name := range t.Processes {
			ps, err := resolveName(t, name, all)
			if err != nil {
				return nil, err
			}
			out = append(out, ps...)
		}
		for _, exe := range t.Exes {
			ps, err := resolveExe(t, exe, all)
			if err != nil {
				return nil, err
			}
			out = append(out, ps...)
		}
		for _, c := range t.Containers {
			ps, err := resolveContainer(t, c, all)
			if err != nil {
				return nil, err
			}
			out = append(out, ps...)
		}
		if len(t.Files) > 0 {
			ps, err := resolveFiles(t, all)
			if err != nil {
				return nil, err
			}
			out = append(out, ps...)
		}
	}
	slices.SortFunc(out, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return slices.CompactFunc(out, func(a, b Process) bool { return a.PID == b.PID }), nil
}

// refuse returns an error located at the target in the statement.
func refuse(t plan.Target, format string, args ...any) *plan.Error {
	start, stop := t.Start, t.Stop
	if stop <= start { // the session's target is not in this statement
		start, stop = -1, -1
	}
	return plan.Errorf(start, stop, format, args...)
}

func resolvePID(t plan.Target, pid int) (Process, error) {
	var buf [statBytes]byte
	var s Stat
	if !readStat(pid, buf[:], &s) || !Visible(t.Viewer, pid) {
		return Process{}, refuse(t, "there is no process %d", pid).WithHint("%s", whichRun(t.Viewer))
	}
	switch {
	case s.Kernel():
		return Process{}, refuse(t, "process %d (%s) is a kernel thread: it runs no program", pid, s.Comm)
	case s.Ended():
		return Process{}, refuse(t, "process %d (%s) has ended and only waits for its parent to collect it", pid, s.Comm)
	}
	if tgid := leader(pid); tgid != 0 && tgid != pid {
		return Process{}, refuse(t, "%d is a thread of process %d", pid, tgid).WithHint("pid = %d AND tid = %d", tgid, pid)
	}
	exe, _ := readExe(pid)
	return Process{PID: pid, Comm: string(s.Comm), Exe: exe, StartTime: s.StartTime}, nil
}

func resolveName(t plan.Target, name string, all []Process) ([]Process, error) {
	if out := matching(plan.Target{Processes: []string{name}}, all); len(out) > 0 {
		return out, nil
	}
	if t.Viewer.Everything() {
		if err := unsuitable(t, TruncateComm(name)); err != nil {
			return nil, err
		}
	}
	err := refuse(t, "no process is named '%s'", name)
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Comm
	}
	if near := plan.Nearest(name, names, 3); len(near) > 0 {
		return nil, err.WithHint("there is %s", quoteList(near))
	}
	return nil, err.WithHint("%s", whichRun(t.Viewer))
}

// resolveContainer returns the processes of containers. What runs in a container that does not
// exist is not known, so it is refused.
func resolveContainer(t plan.Target, c plan.ContainerIs, all []Process) ([]Process, error) {
	if out := matching(plan.Target{Containers: []plan.ContainerIs{c}}, all); len(out) > 0 {
		return out, nil
	}
	answering, failed := container.Default.Runtimes() // a look at a process waits less
	for _, p := range all {
		RenewContainer(p.PID)
	}
	if out := matching(plan.Target{Containers: []plan.ContainerIs{c}}, all); len(out) > 0 {
		return out, nil
	}
	err := refuse(t, "no process runs in a container with %s", c)
	var values []string
	for _, p := range all {
		if in := ContainerOf(p.PID); in != nil && in.ID != "" && !slices.Contains(values, in.Get(c.Column)) && in.Get(c.Column) != "" {
			values = append(values, in.Get(c.Column))
		}
	}
	if near := plan.Nearest(c.Value, values, 3); len(near) > 0 {
		return nil, err.WithHint("there is %s", quoteList(near))
	}
	if len(answering) == 0 && t.Viewer.Everything() && c.Column != container.ByCgroup {
		reason := "none has a socket here (endoscope help containers)"
		if failed != nil {
			reason = strings.ReplaceAll(failed.Error(), "\n", "; ")
		}
		return nil, err.WithHint("no container runtime answers, so containers are called by their ids: %s", reason)
	}
	return nil, err.WithHint("SHOW CONTAINERS lists those that run")
}

// matching returns those of all that t's names and executables match, as they are now:
// what was listed as it executed its program matches by that program's file, but has
// the path and the name of the one before.
func matching(t plan.Target, all []Process) (out []Process) {
	m := NewMatcher(t)
	for _, p := range all {
		if !m.Matches(p) {
			continue
		}
		if now, ok := Lookup(p.PID); ok && now.StartTime == p.StartTime && m.Matches(now) {
			out = append(out, now)
		}
	}
	return out
}

// whichRun returns the hint after a process name that no process has.
func whichRun(v *plan.Viewer) string {
	if v.Everything() {
		return "SHOW PROCESSES lists those that run"
	}
	return "SHOW PROCESSES lists those that you may observe"
}

// unsuitable returns why processes called comm are no targets, nil if there are
// none.
func unsuitable(t plan.Target, comm string) error {
	pids, err := pids()
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		var buf [statBytes]byte
		var s Stat
		if !readStat(pid, buf[:], &s) || string(s.Comm) != comm {
			continue
		}
		if s.Kernel() || s.Ended() {
			_, err := resolvePID(t, pid)
			return err
		}
	}
	return nil
}

func resolveExe(t plan.Target, exe string, all []Process) ([]Process, error) {
	out := matching(plan.Target{Exes: []string{exe}}, all)
	if len(out) > 0 || t.Found && len(t.Exes) > 1 { // those that have ended since
		return out, nil
	}
	if !t.Viewer.Everything() {
		// The viewer must not learn whether the file exists, and what it
		// contains.
		return nil, refuse(t, "no process executes %s", exe).WithHint("%s", whichRun(t.Viewer))
	}
	f, err := OpenExe(exe)
	if err == nil {
		f.Close()
		return nil, nil
	}
	placed := placedAt(t, err)
	if _, err := os.Lstat(exe); errors.Is(err, fs.ErrNotExist) && placed.Hint == "" {
		names := make([]string, len(all))
		for i, p := range all {
			names[i] = p.Exe
		}
		if near := plan.Nearest(exe, names, 3); len(near) > 0 {
			return nil, placed.WithHint("there is %s", quoteList(near))
		}
	}
	return nil, placed
}

// placedAt returns the refusal of a file, located at t.
func placedAt(t plan.Target, err error) *plan.Error {
	var pe *plan.Error
	if !errors.As(err, &pe) {
		return refuse(t, "%v", err)
	}
	placed := refuse(t, "%s", pe.Msg)
	placed.Hint = pe.Hint
	return placed
}

func quoteList(names []string) string {
	return "'" + strings.Join(names, "', '") + "'"
}
