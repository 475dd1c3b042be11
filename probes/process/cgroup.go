package process

import (
	"bytes"
	"os"
	"strings"
)

// Container returns the container of process pid by its control group, as this
// process sees the hierarchy: the path in the unified one (cgroup v2), such as
// /system.slice/docker-0123….scope, or if that is the root the longest path
// in one of version 1. "/" means no container, "" unknown.
func Container(pid int) string {
	text, err := os.ReadFile(path(pid, "cgroup"))
	if err != nil {
		return ""
	}
	name := containerOf(text)
	if name == "/" && exits(pid) {
		// In version 1 exiting processes are moved to the root
		// (proc_cgroup_show).
		return ""
	}
	return name
}

// exits reports whether a process is ending or has ended.
func exits(pid int) bool {
	var buf [statBytes]byte
	var s Stat
	return !readStat(pid, buf[:], &s) || s.Flags&pfExiting != 0
}

// containerOf parses lines such as 4:memory:/docker/0123… and 0::/user.slice.
func containerOf(text []byte) string {
	longest := ""
	for line := range bytes.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		unified := parts[0] == "0" && parts[1] == ""
		if unified && parts[2] != "/" {
			return parts[2]
		}
		if len(parts[2]) > len(longest) {
			longest = parts[2]
		}
	}
	return longest
}
