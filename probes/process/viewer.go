package process

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/planner/plan"

	"golang.org/x/sys/unix"
)

// Visible reports whether v may observe process pid. The rule is also
// implemented in eBPF (target.h), for each event: a process may change its user
// by executing a set-user-ID program.
//
// A user of the machine may observe what they could ptrace by the kernel's own
// rule without capabilities (__ptrace_may_access in kernel/ptrace.c): all user
// and group ids are theirs, the process has no capabilities and is dumpable;
// programs that change their user, and those whose file is not readable, are
// not. The kernel compares only the caller's group; here any of the user's
// groups matches, since the user can switch to it with newgrp(1). Processes of
// user namespaces are visible to no user, and security modules are not
// consulted.
func Visible(v *plan.Viewer, pid int) bool {
	if v.Everything() {
		return true
	}
	// If it executes another program in between, one of the two reads sees
	// that.
	before, ok := credentialsOf(pid)
	if !ok || !visible(v, pid, &before) {
		return false
	}
	after, ok := credentialsOf(pid)
	return ok && before == after
}

func visible(v *plan.Viewer, pid int, c *credentials) bool {
	user := c.uid[0]
	oneUser := c.uid == [3]uint32{user, user, user} && c.here
	switch {
	case oneUser && slices.Contains(v.Users, user):
		return true
	case v.Local && v.UID == 0:
		return c.here
	case v.Local && oneUser && user == v.UID && c.gid == [3]uint32{c.gid[0], c.gid[0], c.gid[0]} &&
		slices.Contains(v.GIDs, c.gid[0]) && c.capabilities == 0 && c.dumpable:
		return true
	}
	return len(v.Cgroups) > 0 && inCgroups(v.Cgroups, pid)
}

// credentials are the inputs of the kernel's rule.
type credentials struct {
	uid, gid     [3]uint32 // real, effective, saved
	capabilities uint64    // permitted
	dumpable     bool
	here         bool // in our user namespace
	start        uint64
}

// credentialsOf reads the credentials of a process; false if it has ended.
func credentialsOf(pid int) (c credentials, ok bool) {
	var buf [4096]byte
	b := buf[:readFile(path(pid, "status"), buf[:])]
	var st unix.Stat_t
	// Files in the directory of a process that is not dumpable belong to root
	// (task_dump_owner in fs/proc/base.c).
	if len(b) == 0 || !ids(b, "\nUid:\t", &c.uid) || !ids(b, "\nGid:\t", &c.gid) || unix.Stat(path(pid, "environ"), &st) != nil {
		return c, false
	}
	c.dumpable = st.Uid == c.uid[1]
	_, caps, found := bytes.Cut(b, []byte("\nCapPrm:\t"))
	if !found {
		return c, false
	}
	for _, digit := range caps[:bytes.IndexByte(caps, '\n')] {
		c.capabilities = c.capabilities<<4 | uint64(strings.IndexByte("0123456789abcdef", digit))
	}
	ours, err := os.Readlink("/proc/self/ns/user")
	theirs, err2 := os.Readlink(path(pid, "ns/user"))
	c.here = err == nil && err2 == nil && ours == theirs
	var sbuf [statBytes]byte
	var s Stat
	ok = readStat(pid, sbuf[:], &s)
	c.start = s.StartTime
	return c, ok
}

// ids parses the first three numbers of a line of status.
func ids(status []byte, field string, out *[3]uint32) bool {
	_, b, found := bytes.Cut(status, []byte(field))
	for i := range out {
		v, rest := number(b)
		if len(rest) == len(b) {
			return false
		}
		out[i] = uint32(v)
		b = bytes.TrimLeft(rest, "\t")
	}
	return found
}

// inCgroups reports whether a process is in one of the cgroups, or below.
func inCgroups(cgroups []string, pid int) bool {
	b, err := os.ReadFile(path(pid, "cgroup"))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(b) {
		of, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte{'\n'}), []byte("0::"))
		if !ok {
			continue
		}
		return slices.ContainsFunc(cgroups, func(c string) bool { return isWithin(string(of), c) })
	}
	return false
}

// isWithin reports whether a path is folder or below it.
func isWithin(path, folder string) bool {
	folder = strings.Trim(folder, "/")
	path = strings.Trim(path, "/")
	return folder != "" && (path == folder || strings.HasPrefix(path, folder+"/"))
}

// CgroupID returns the id of a cgroup in eBPF programs, and its depth below the
// root of the hierarchy; false if it does not exist.
func CgroupID(cgroup string) (id uint64, level int, ok bool) {
	root := cgroupRoot()
	cgroup = strings.Trim(filepath.Clean("/"+cgroup), "/")
	var st unix.Stat_t
	if root == "" || cgroup == "" || unix.Stat(filepath.Join(root, cgroup), &st) != nil {
		return 0, 0, false
	}
	return st.Ino, 1 + strings.Count(cgroup, "/"), true
}

// cgroupRoot returns the mount point of the unified hierarchy; "": none.
func cgroupRoot() string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(b) {
		left, right, ok := bytes.Cut(line, []byte(" - "))
		fields := bytes.Fields(left)
		if ok && len(fields) > 4 && string(fields[3]) == "/" && bytes.HasPrefix(right, []byte("cgroup2 ")) {
			return string(fields[4])
		}
	}
	return ""
}
