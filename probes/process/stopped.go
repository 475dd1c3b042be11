package process

// Stopped reports whether a process is stopped: by a signal, by a debugger, or
// because it is held before its first instruction.
func Stopped(pid int) bool {
	var buf [statBytes]byte
	var s Stat
	return readStat(pid, buf[:], &s) && (s.State == 'T' || s.State == 't')
}
