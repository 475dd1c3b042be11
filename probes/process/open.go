package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"endoscope/planner/plan"

	"golang.org/x/sys/unix"
)

// MaxFileSize limits the executables and libraries that are opened.
const MaxFileSize = 4 << 30

func mkdev(major, minor uint64) uint64 { return unix.Mkdev(uint32(major), uint32(minor)) }

// OpenModule opens the file behind a mapping of process pid for reading.
//
// The path is resolved inside the process's own root: an absolute symbolic link
// in a container must not lead to a file of the host. If the path no longer
// leads to the mapped file (deleted, upgraded, another layer of an overlay),
// the file is opened through the mapping itself.
func OpenModule(pid int, m Mapping) (*os.File, error) {
	// Everything uses one descriptor of the directory: it refers to this
	// process even if pid is reused meanwhile.
	proc, err := openAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	defer unix.Close(proc)
	var first error
	if !m.Deleted {
		f, err := openInRoot(proc, m)
		if err == nil {
			return f, nil
		}
		first = err
	}
	f, err := openMapped(proc, m)
	if err == nil {
		return f, nil
	}
	// map_files needs CAP_CHECKPOINT_RESTORE; exe needs only ptrace rights.
	if f, err := reopen(proc, "exe", m.Path, &m); err == nil {
		return f, nil
	}
	if first != nil {
		err = first
	}
	return nil, fmt.Errorf("%s, mapped by process %d, cannot be opened: %w", m.Path, pid, err)
}

// OpenLeft opens the file of a mapping that a process had and no longer has;
// the process may have ended. It must be the file of m, found by m's path, in
// the root of the process if that exists.
func OpenLeft(pid int, m Mapping) (*os.File, error) {
	if proc, err := openAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		defer unix.Close(proc)
		if f, err := openInRoot(proc, m); err == nil {
			return f, nil
		}
	}
	fd, err := openAt(unix.AT_FDCWD, m.Path, unix.O_PATH, unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return openFound(fd, m.Path, &m)
}

var errOtherFile = errors.New("another file has this name now")

func openInRoot(proc int, m Mapping) (*os.File, error) {
	root, err := openAt(proc, "root", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := openAt(root, m.Path, unix.O_PATH, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return openFound(fd, m.Path, &m)
}

// openMapped opens the file that is mapped at m's addresses. It is the file of
// m if maps still says so afterwards; the device and inode of stat may differ
// from those in maps (overlayfs, btrfs) and are not compared.
func openMapped(proc int, m Mapping) (*os.File, error) {
	f, err := reopen(proc, fmt.Sprintf("map_files/%x-%x", m.Start, m.End), m.Path, nil)
	if err != nil {
		return nil, err
	}
	still, err := mapped(proc, m)
	if err == nil && !still {
		err = errOtherFile
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mapped reports whether m is currently a mapping of the process.
func mapped(proc int, m Mapping) (bool, error) {
	fd, err := openAt(proc, "maps", unix.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	f := os.NewFile(uintptr(fd), "maps")
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxMaps))
	if err != nil {
		return false, err
	}
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		now, ok := parseMapping(line)
		if ok && now.Start == m.Start && now.End == m.End {
			return now.Dev == m.Dev && now.Inode == m.Inode && now.Offset == m.Offset, nil
		}
	}
	return false, nil
}

// reopen follows one of /proc's magic links.
func reopen(proc int, link, name string, m *Mapping) (*os.File, error) {
	fd, err := openAt(proc, link, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return openFound(fd, name, m)
}

// openFound opens for reading what an O_PATH descriptor refers to, if it is a
// regular file of acceptable size (opening a device or a FIFO would have
// effects) and, if m is given, the file of m.
func openFound(fd int, name string, m *Mapping) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, errors.New("is a directory")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("is not a regular file")
	case st.Size > MaxFileSize:
		return nil, fmt.Errorf("has %d bytes, more than the %d that are read", st.Size, int64(MaxFileSize))
	}
	opened, err := openAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(opened), name)
	if m != nil && !isMapped(*m, FileID{st.Dev, st.Ino}, func() (FileID, error) { return MappedID(file) }) {
		file.Close()
		return nil, errOtherFile
	}
	return file, nil
}

func openAt(dir int, name string, flags, resolve uint64) (int, error) {
	for {
		fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve})
		// EAGAIN: a rename raced with the walk, so the kernel could not verify
		// that it stayed inside the root.
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// OpenExe opens a native program or library (ELF) by the path that the user
// gave. Refusals are *plan.Error without a position.
func OpenExe(path string) (*os.File, error) {
	fd, err := openAt(unix.AT_FDCWD, path, unix.O_PATH, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR:
		return nil, plan.Errorf(-1, -1, "%s does not exist", path)
	case unix.EACCES:
		return nil, plan.Errorf(-1, -1, "%s cannot be reached: permission denied", path)
	default:
		return nil, plan.Errorf(-1, -1, "%s cannot be opened: %v", path, err)
	}
	defer unix.Close(fd)
	f, err := openFound(fd, path, nil)
	if err == unix.EACCES {
		return nil, plan.Errorf(-1, -1, "%s cannot be read: permission denied", path)
	}
	if err != nil {
		return nil, plan.Errorf(-1, -1, "%s %v", path, err)
	}
	var head [256]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, plan.Errorf(-1, -1, "%s cannot be read: %v", path, err)
	}
	if bytes.HasPrefix(head[:n], []byte("\x7fELF")) {
		return f, nil
	}
	f.Close()
	e := plan.Errorf(-1, -1, "%s is not a native program (ELF)", path)
	if script, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		line, _, _ := bytes.Cut(script, []byte{'\n'})
		if words := strings.Fields(string(line)); len(words) > 0 {
			return nil, plan.Errorf(-1, -1, "%s is a script", path).WithHint("name the program that runs it, %s", words[0])
		}
	}
	return nil, e
}
