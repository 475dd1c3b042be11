package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// InnerPID returns the pid of a process in its own namespace, which differs
// from ours in a container. 0 if there is no such process.
func InnerPID(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, line, ok := bytes.Cut(b, []byte("\nNSpid:"))
	if !ok { // a kernel without PID namespaces
		return pid
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	numbers := bytes.Fields(line)
	if len(numbers) == 0 {
		return pid
	}
	n, err := strconv.Atoi(string(numbers[len(numbers)-1]))
	if err != nil {
		return 0
	}
	return n
}

// OpenOwn opens, for reading, a regular file created by a process: at a path
// within the process's root that contains no symbolic link, and owned by the
// process's user, or by root. Other users may have placed files there.
func OpenOwn(pid int, path string) (*os.File, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	proc, err := openAt(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	defer unix.Close(proc)
	root, err := openAt(proc, "root", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := openAt(root, path, unix.O_PATH, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var file, owner unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		return nil, err
	}
	if err := unix.Fstat(proc, &owner); err != nil {
		return nil, err
	}
	if file.Uid != owner.Uid && file.Uid != 0 {
		return nil, fmt.Errorf("%s belongs to another user", path)
	}
	return openFound(fd, path, nil)
}
