package java

import (
	"bytes"
	"endoscope/probes/process"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Errors for machines whose compiled code cannot be listed.
var (
	// ErrFramePointers is returned for machines whose methods do not keep frame
	// pointers.
	ErrFramePointers = errors.New("it was started without -XX:+PreserveFramePointer: callers of compiled methods are not visible")
	// ErrPerfMap is returned for machines before JDK 17.
	ErrPerfMap = errors.New("it does not know the command Compiler.perfmap, which JDK 17 and later have")
	// ErrPlanted is returned for machines that would write through a file of
	// another user.
	ErrPlanted = errors.New("the file that it would write its methods to is another user's, or none")
)

// WritePerfMap makes the machine write the addresses of its compiled methods
// into the file that package perfmap reads. It stops no thread. cost is the CPU
// time that the machine used.
func (m *Machine) WritePerfMap() (cost time.Duration, err error) {
	flag, err := m.ask("printflag", "PreserveFramePointer")
	if err != nil {
		return 0, err
	}
	if !bytes.Contains(flag, []byte("+PreserveFramePointer")) {
		return 0, ErrFramePointers
	}
	if !m.ownsPerfMap() {
		return 0, ErrPlanted
	}
	listener := m.threadNamed("Attach Listener")
	before := m.timeOf(listener)
	if _, err := m.ask("jcmd", "Compiler.perfmap"); errors.Is(err, errRefused) {
		return 0, ErrPerfMap
	} else if err != nil {
		return 0, err
	}
	return m.timeOf(listener) - before, nil
}

// ownsPerfMap reports whether the file does not exist yet, or is a regular one
// of the machine's user: the machine follows symbolic links.
func (m *Machine) ownsPerfMap() bool {
	var file, self unix.Stat_t
	err := unix.Fstatat(m.tmp, fmt.Sprintf("perf-%d.map", m.inner), &file, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err == unix.ENOENT
	}
	return file.Mode&unix.S_IFMT == unix.S_IFREG && unix.Stat(fmt.Sprintf("/proc/%d", m.pid), &self) == nil && self.Uid == file.Uid
}

// threadNamed finds a thread by its name, as truncated by the kernel; 0: none.
func (m *Machine) threadNamed(name string) int {
	tids, _ := process.Threads(m.pid) // none if it has ended
	for _, tid := range tids {
		if b, err := process.ReadThread(m.pid, tid, "comm"); err == nil && string(bytes.TrimSuffix(b, []byte{'\n'})) == name {
			return tid
		}
	}
	return 0
}
