package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exitInfo is struct pidfd_info (include/uapi/linux/pidfd.h, its first version).
type exitInfo struct {
	mask     uint64
	_        uint64
	_        [11]uint32
	exitCode int32
}

const (
	infoExit = 1 << 3 // PIDFD_INFO_EXIT; Linux 6.15
	exitWait = 100    // ms
	getInfo  = 0xc0000000 | uint(unsafe.Sizeof(exitInfo{}))<<16 | 0xff<<8 | 11
)

// ExitSignal returns the signal that has ended a process, whose pidfd was opened while it ran. It
// is 0 if none has, or if that is not known: the process runs, or the kernel is older than 6.15 and
// its parent has collected it. A process that is about to end, and has left its memory, is waited
// for a moment.
func ExitSignal(pidfd, pid int) unix.Signal {
	if _, runs := Lookup(pid); !runs {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, exitWait)
	}
	status, known := uncollected(pidfd, pid)
	if !known {
		status, known = collected(pidfd)
	}
	if w := unix.WaitStatus(status); known && w.Signaled() {
		return w.Signal()
	}
	return 0
}

// uncollected returns the wait status of a process that has ended and was not collected by its
// parent: the last field of its stat file (fs/proc/array.c).
func uncollected(pidfd, pid int) (status int, known bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var s Stat
	if err != nil || !ParseStat(text, &s) || !s.Ended() || unix.PidfdSendSignal(pidfd, 0, nil, 0) != nil { // another has its pid
		return 0, false
	}
	fields := bytes.Fields(text)
	status, err = strconv.Atoi(string(fields[len(fields)-1]))
	return status, err == nil
}

// collected returns the wait status of a process that was collected.
func collected(pidfd int) (status int, known bool) {
	info := exitInfo{mask: infoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), uintptr(getInfo), uintptr(unsafe.Pointer(&info)))
	return int(info.exitCode), errno == 0 && info.mask&infoExit != 0
}
