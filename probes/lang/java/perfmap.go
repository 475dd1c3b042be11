package java

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What is said of machines whose compiled code cannot be told.
var (
	// ErrFramePointers is of those whose methods leave no trace of their callers.
	ErrFramePointers = errors.New("it was started without -XX:+PreserveFramePointer: who called a compiled method is not to be seen")
	// ErrPerfMap is of those before JDK 17.
	ErrPerfMap = errors.New("it does not know the command Compiler.perfmap, which JDK 17 has and later ones")
	// ErrPlanted is of those that would write through what another user has put there.
	ErrPlanted = errors.New("the file that it would write its methods to is another user's, or none")
)

// WritePerfMap has the machine write where its compiled methods are, into the file
// of package perfmap. It halts no thread. cost is the CPU time that this took it.
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

// ownsPerfMap reports whether the file is not there yet, or a regular one of the
// machine's user: the machine follows symbolic links.
func (m *Machine) ownsPerfMap() bool {
	var file, self unix.Stat_t
	err := unix.Fstatat(m.tmp, fmt.Sprintf("perf-%d.map", m.inner), &file, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err == unix.ENOENT
	}
	return file.Mode&unix.S_IFMT == unix.S_IFREG && unix.Stat(fmt.Sprintf("/proc/%d", m.pid), &self) == nil && self.Uid == file.Uid
}

// threadNamed finds a thread by its name, as far as the kernel keeps it; 0: there
// is none.
func (m *Machine) threadNamed(name string) int {
	dir := fmt.Sprintf("/proc/%d/task", m.pid)
	entries, _ := os.ReadDir(dir) // none if it has ended
	for _, e := range entries {
		if b, err := os.ReadFile(dir + "/" + e.Name() + "/comm"); err == nil && string(bytes.TrimSuffix(b, []byte{'\n'})) == name {
			tid, _ := strconv.Atoi(e.Name())
			return tid
		}
	}
	return 0
}
