package procfs

import (
	"os"
	"strconv"

	"endoscope/planner/catalog"
	"endoscope/probes/clock"
	"endoscope/probes/container"
	"endoscope/probes/process"

	"golang.org/x/sys/unix"
)

// Positions of the columns.
var (
	processTime        = catalog.Position(catalog.ProcessUsage, "timestamp")
	processPID         = catalog.Position(catalog.ProcessUsage, "pid")
	processName        = catalog.Position(catalog.ProcessUsage, "process")
	processContained   = catalog.Positions(catalog.ProcessUsage, container.Columns...)
	processExe         = catalog.Position(catalog.ProcessUsage, "exe")
	processCPU         = catalog.Position(catalog.ProcessUsage, "percent_cpu")
	processRSS         = catalog.Position(catalog.ProcessUsage, "rss")
	processVSize       = catalog.Position(catalog.ProcessUsage, "vsize")
	processThreads     = catalog.Position(catalog.ProcessUsage, "threads")
	processOpenFiles   = catalog.Position(catalog.ProcessUsage, "open_files")
	processMinorFaults = catalog.Position(catalog.ProcessUsage, "minor_faults")
	processMajorFaults = catalog.Position(catalog.ProcessUsage, "major_faults")
	processReadBytes   = catalog.Position(catalog.ProcessUsage, "read_bytes")
	processWriteBytes  = catalog.Position(catalog.ProcessUsage, "write_bytes")
	processVoluntary   = catalog.Position(catalog.ProcessUsage, "voluntary_switches")
	processInvoluntary = catalog.Position(catalog.ProcessUsage, "involuntary_switches")
)

// processState is what the sampler keeps of a process between samples.
type processState struct {
	cpu      history[uint64]
	io       file
	switches switchCount
}

// processSampler reads /proc/PID/stat of each process, and other files if their
// columns are requested; percent_cpu is from the process's CPU clock.
type processSampler struct {
	targets  *targets
	window   window
	state    map[*observed]*processState
	buf      []byte
	cpu      bool
	files    bool
	io       bool
	switches bool
}

func newProcessSampler(w window, ts func(gone func(*observed)) *targets, out *output) *processSampler {
	s := &processSampler{
		window: w, state: map[*observed]*processState{}, buf: make([]byte, 4096),
		cpu:      out.wants(processCPU),
		files:    out.wants(processOpenFiles),
		io:       out.wants(processReadBytes) || out.wants(processWriteBytes),
		switches: out.wants(processVoluntary) || out.wants(processInvoluntary),
	}
	s.targets = ts(func(o *observed) {
		if state := s.state[o]; state != nil {
			state.io.close()
			delete(s.state, o)
		}
	})
	return s
}

func (s *processSampler) sample(at int64, out *output) error {
	if err := s.targets.refresh(); err != nil {
		return err
	}
	s.targets.retain(func(o *observed) bool {
		var stat process.Stat
		if !o.readStat(&s.buf, &stat) {
			return false
		}
		s.row(at, o, &stat, out)
		return true
	})
	return nil
}

var pageBytes = int64(os.Getpagesize())

func (s *processSampler) row(at int64, o *observed, stat *process.Stat, out *output) {
	state := s.state[o]
	if state == nil {
		state = &processState{io: newFile(o.dir, "io", &s.targets.budget)}
		if o.fresh > 0 {
			state.cpu.base(s.window, o.fresh, 0)
		}
		s.state[o] = state
	}
	out.int(processTime, at)
	out.int(processPID, int64(o.PID))
	out.str(processName, o.Comm)
	if o.Exe != "" {
		out.str(processExe, o.Exe)
	}
	out.container(processContained, o.PID)
	out.int(processRSS, stat.RSS*pageBytes)
	out.count(processVSize, stat.VSize)
	out.int(processThreads, stat.Threads)
	out.count(processMinorFaults, stat.MinorFaults)
	out.count(processMajorFaults, stat.MajorFaults)
	if s.cpu {
		if used, ok := cpuClock(o.PID); ok {
			now := clock.Boot()
			if since, then, ok := state.cpu.base(s.window, now, used); ok && now > since {
				out.float(processCPU, 100*grown(then, used)/float64(now-since))
			}
		}
	}
	if s.files {
		n, err := openFiles(o.dir)
		if err == nil {
			out.int(processOpenFiles, n)
		}
		out.refusal(err)
	}
	if s.io {
		b, err := state.io.read(&s.buf)
		if v, ok := text(b).after("\nread_bytes:"); ok {
			out.count(processReadBytes, v.count())
		}
		if v, ok := text(b).after("\nwrite_bytes:"); ok {
			out.count(processWriteBytes, v.count())
		}
		out.refusal(err)
	}
	if s.switches && state.switches.update(o, &s.buf) == nil {
		out.count(processVoluntary, state.switches.voluntary)
		out.count(processInvoluntary, state.switches.involuntary)
	}
	out.emit()
}

// cpuClock returns the CPU time of a whole process, including its ended
// threads, in ns: the clock of clock_getcpuclockid(3). It is exact to a
// scheduler tick (1-4 ms) where /proc/PID/stat counts in 10 ms.
func cpuClock(pid int) (uint64, bool) {
	const perProcessSched = 2 // CPUCLOCK_SCHED of include/linux/posix-timers_types.h
	var ts unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|perProcessSched), &ts) != nil {
		return 0, false
	}
	return uint64(ts.Nano()), true
}

// openFiles returns the number of open files of a process: since Linux 6.2 it
// is the size of its fd directory.
func openFiles(dir int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, "fd", &st, 0); err != nil {
		return 0, err
	}
	if st.Size > 0 {
		return st.Size, nil
	}
	fd, err := unix.Openat(dir, "fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	d := directory{fd: fd}
	defer d.close()
	n := int64(0)
	err = d.numbers(func(int) { n++ })
	return n, err
}

// switchCount sums the context switches of a process. The kernel reports them
// for living threads only; the last count seen of a thread remains included
// when it ends.
type switchCount struct {
	voluntary, involuntary uint64
	last                   map[int][2]uint64 // by thread
	next                   map[int][2]uint64
}

func (c *switchCount) update(o *observed, buf *[]byte) error {
	if c.last == nil {
		c.last, c.next = map[int][2]uint64{}, map[int][2]uint64{}
	}
	clear(c.next)
	err := o.tids(func(tid int) {
		f := newFile(o.dir, "task/"+strconv.Itoa(tid)+"/status", nil)
		defer f.close()
		b, err := f.read(buf)
		if err != nil {
			return // it has ended
		}
		t := text(b)
		voluntary, _ := t.after("\nvoluntary_ctxt_switches:")
		involuntary, _ := t.after("\nnonvoluntary_ctxt_switches:")
		now := [2]uint64{voluntary.count(), involuntary.count()}
		c.voluntary += now[0] - min(now[0], c.last[tid][0])
		c.involuntary += now[1] - min(now[1], c.last[tid][1])
		c.next[tid] = now
	})
	c.last, c.next = c.next, c.last
	return err
}

func (s *processSampler) close() { s.targets.close() }
