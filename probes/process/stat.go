package process

import "bytes"

// Stat is the content of /proc/PID/stat or /proc/PID/task/TID/stat
// (proc_pid_stat(5), fs/proc/array.c do_task_stat).
type Stat struct {
	PID         int
	Comm        []byte // within the parsed buffer; at most 15 bytes
	State       byte   // R, S, D, T, t, Z, X, I
	Parent      int
	Flags       uint64 // PF_* of include/linux/sched.h
	MinorFaults uint64
	MajorFaults uint64
	UserTicks   uint64 // clock ticks (USER_HZ, 100 a second)
	SystemTicks uint64
	Threads     int64
	StartTime   uint64 // clock ticks since boot
	VSize       uint64 // bytes
	RSS         int64  // pages
}

const (
	pfExiting = 0x00000004
	pfKthread = 0x00200000
)

// Kernel reports a kernel thread, which has no program and no user memory.
func (s *Stat) Kernel() bool { return s.Flags&pfKthread != 0 }

// Ended reports a process that has ended and was not yet reaped by its parent.
// It is false for a leader that has ended while other threads run.
func (s *Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// ParseStat parses the text of a stat file into s without allocating, and
// reports whether it was complete. The comm may contain anything, including
// spaces and parentheses: it ends at the last one.
func ParseStat(b []byte, s *Stat) bool {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || shut < open || shut+3 >= len(b) {
		return false
	}
	pid, rest := number(b[:open])
	if len(rest) == open {
		return false
	}
	s.PID, s.Comm, s.State = int(pid), b[open+1:shut], b[shut+2]
	b = b[shut+3:]
	for field := 4; field <= 24; field++ {
		for len(b) > 0 && b[0] == ' ' {
			b = b[1:]
		}
		v, rest := number(b)
		if len(rest) == len(b) {
			return false
		}
		b = rest
		switch field {
		case 4:
			s.Parent = int(v)
		case 9:
			s.Flags = uint64(v)
		case 10:
			s.MinorFaults = uint64(v)
		case 12:
			s.MajorFaults = uint64(v)
		case 14:
			s.UserTicks = uint64(v)
		case 15:
			s.SystemTicks = uint64(v)
		case 20:
			s.Threads = v
		case 22:
			s.StartTime = uint64(v)
		case 23:
			s.VSize = uint64(v)
		case 24:
			s.RSS = v
		}
	}
	return true
}

// number parses a decimal number, signed or not, and returns what follows it.
// Numbers that do not fit wrap; the kernel writes none.
func number(b []byte) (int64, []byte) {
	i, negative := 0, false
	if len(b) > 0 && b[0] == '-' {
		i, negative = 1, true
	}
	var v int64
	first := i
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		v = v*10 + int64(b[i]-'0')
	}
	if i == first {
		return 0, b
	}
	if negative {
		v = -v
	}
	return v, b[i:]
}

// CPUTicks returns the CPU time that processes have used, in clock ticks; ok is false if one
// of them has ended.
func CPUTicks(pids []int) (sum uint64, ok bool) {
	var buf [statBytes]byte
	var s Stat
	for _, pid := range pids {
		if !readStat(pid, buf[:], &s) || s.Ended() {
			return 0, false
		}
		sum += s.UserTicks + s.SystemTicks
	}
	return sum, true
}
