package process

import "endoscope/planner/plan"

// FilesOf returns the kernel's identities of a target's files. Refusals are *plan.Error
// located at t.
func FilesOf(t plan.Target) (map[FileID]bool, error) {
	ids := map[FileID]bool{}
	for _, path := range t.Files {
		f, err := OpenExe(path)
		if err != nil {
			if t.Viewer.Everything() {
				return nil, placedAt(t, err)
			}
			continue // the viewer must not learn whether the file exists
		}
		id, err := MappedID(f)
		f.Close()
		if err != nil {
			return nil, refuse(t, "%v", err)
		}
		ids[id] = true
	}
	return ids, nil
}

// resolveFiles returns the processes that have mapped code of t's files.
func resolveFiles(t plan.Target, all []Process) (out []Process, err error) {
	ids, err := FilesOf(t)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		mappings, _ := Modules(p.PID) // it may have ended
		for _, m := range mappings {
			if ids[FileID{m.Dev, m.Inode}] {
				out = append(out, p)
				break
			}
		}
	}
	if len(out) == 0 && !t.Viewer.Everything() {
		return nil, refuse(t, "no process has loaded %s", t.Files[0]).WithHint("%s", whichRun(t.Viewer))
	}
	return out, nil
}
