package procfs

import (
	"endoscope/planner/catalog"

	"golang.org/x/sys/unix"
)

// Positions of the columns.
var (
	cpuTime   = catalog.Position(catalog.CPUUsage, "timestamp")
	cpuBusy   = catalog.Position(catalog.CPUUsage, "percent_busy")
	cpuIdle   = catalog.Position(catalog.CPUUsage, "percent_idle")
	cpuUser   = catalog.Position(catalog.CPUUsage, "percent_user")
	cpuSystem = catalog.Position(catalog.CPUUsage, "percent_system")
	cpuIOWait = catalog.Position(catalog.CPUUsage, "percent_iowait")
	cpuSteal  = catalog.Position(catalog.CPUUsage, "percent_steal")
	cpuNumber = catalog.Position(catalog.CPUCoreUsage, "cpu")
)

// cpuTicks are the counters of a line of /proc/stat (proc_stat(5)), in ticks of
// 10 ms. Guests' time is contained in user.
type cpuTicks struct{ user, system, idle, iowait, steal uint64 }

// cpuSampler reads /proc/stat: its first line, or one for each CPU.
type cpuSampler struct {
	file   file
	buf    []byte
	window window
	cores  bool
	past   []history[cpuTicks] // by CPU; for the sum of all, the first
}

func newCPUSampler(w window, cores bool) *cpuSampler {
	return &cpuSampler{
		file: newFile(unix.AT_FDCWD, "/proc/stat", nil), buf: make([]byte, 16<<10),
		window: w, cores: cores, past: make([]history[cpuTicks], 1),
	}
}

func (s *cpuSampler) sample(at int64, out *output) error {
	b, err := s.file.read(&s.buf)
	if err != nil {
		return err
	}
	t := text(b)
	for {
		line, ok := t.line()
		if !ok || len(line) < 4 || string(line[:3]) != "cpu" {
			return nil
		}
		line = line[3:]
		if total := line[0] == ' '; total == s.cores {
			continue
		}
		cpu := uint64(0)
		if s.cores {
			cpu, _ = line.uint()
			if cpu >= 1<<16 {
				continue
			}
			out.count(cpuNumber, cpu)
		}
		for len(s.past) <= int(cpu) {
			s.past = append(s.past, history[cpuTicks]{})
		}
		s.row(at, &s.past[cpu], readTicks(line), out)
		if !s.cores {
			return nil
		}
	}
}

func readTicks(line text) cpuTicks {
	user, nice, system, idle := line.count(), line.count(), line.count(), line.count()
	iowait, irq, softirq, steal := line.count(), line.count(), line.count(), line.count()
	return cpuTicks{user: user + nice, system: system + irq + softirq, idle: idle, iowait: iowait, steal: steal}
}

func (s *cpuSampler) row(at int64, past *history[cpuTicks], now cpuTicks, out *output) {
	out.int(cpuTime, at)
	_, then, ok := past.base(s.window, at, now)
	// The documentation says that iowait may decrease, and idle does when a CPU
	// is removed: such a counter counts as unchanged.
	user, system := grown(then.user, now.user), grown(then.system, now.system)
	idle, iowait, steal := grown(then.idle, now.idle), grown(then.iowait, now.iowait), grown(then.steal, now.steal)
	if sum := user + system + idle + iowait + steal; ok && sum > 0 {
		// The sum must be exactly 100: 100 / sum would be rounded first.
		percent := func(ticks float64) float64 { return 100 * ticks / sum }
		out.float(cpuBusy, percent(user+system+steal))
		out.float(cpuIdle, percent(idle))
		out.float(cpuUser, percent(user))
		out.float(cpuSystem, percent(system))
		out.float(cpuIOWait, percent(iowait))
		out.float(cpuSteal, percent(steal))
	}
	out.emit()
}

// grown returns the increase of a counter, 0 if it decreased.
func grown(then, now uint64) float64 {
	if now <= then {
		return 0
	}
	return float64(now - then)
}

func (s *cpuSampler) close() { s.file.close() }
