package procfs

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/clock"
	"endoscope/probes/process"

	"golang.org/x/sys/unix"
)

// rescan is the minimum interval between searches of /proc for processes that
// match a name or an executable, and between readings of known processes'
// names.
const rescan = 100 * time.Millisecond

// keptFiles is the number of files of processes and threads that a sampler
// keeps open; further ones are opened for each reading, which costs more.
const keptFiles = 1024

// observed is a process that is sampled.
type observed struct {
	process.Process
	dir   int   // /proc/PID, which pins the process: its content ends with the process
	fresh int64 // boot clock of a scan at which it did not run yet; 0: unknown
	stat  file
	task  directory // opened when needed
}

// targets maintains the list of processes in a target.
type targets struct {
	group   *process.Group
	gone    func(o *observed) // called for each process before it is removed
	running []*observed       // by pid
	budget  int
	scanned int64          // boot clock of the last scan; 0: none
	listed  map[int]uint64 // start times, by pid, of the processes listed then
}

// newTargets takes a target and the processes that match it now.
func newTargets(t plan.Target, now []process.Process, gone func(*observed)) *targets {
	return &targets{group: process.NewGroup(t, now), gone: gone, budget: keptFiles, listed: map[int]uint64{}}
}

// refresh adds processes that match now, updates the names of known ones (exec
// changes them) and removes those that no longer match.
func (t *targets) refresh() error {
	now, before := clock.Boot(), t.scanned
	if before != 0 && now-before < int64(rescan) && !t.group.MayChange() {
		return nil
	}
	all, err := t.group.Candidates()
	if err != nil {
		return err
	}
	t.scanned = now
	known := make(map[int]bool, len(t.running))
	t.retain(func(o *observed) bool {
		i, ok := slices.BinarySearchFunc(all, o.PID, func(p process.Process, pid int) int {
			return cmp.Compare(p.PID, pid)
		})
		if !ok || all[i].StartTime != o.StartTime || !t.group.Includes(all[i]) {
			return false
		}
		o.Process = all[i]
		known[o.PID] = true
		return true
	})
	for _, p := range all {
		if known[p.PID] || !t.group.Includes(p) {
			continue
		}
		fresh := before
		if started, ok := t.listed[p.PID]; ok && started == p.StartTime {
			fresh = 0 // it ran before, under another name
		}
		t.add(p, fresh)
	}
	slices.SortFunc(t.running, func(a, b *observed) int { return cmp.Compare(a.PID, b.PID) })
	clear(t.listed)
	for _, p := range all {
		t.listed[p.PID] = p.StartTime
	}
	return nil
}

// add starts observing p.
func (t *targets) add(p process.Process, fresh int64) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(p.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it has ended
	}
	t.running = append(t.running, &observed{
		Process: p, dir: dir, fresh: fresh,
		stat: newFile(dir, "stat", &t.budget), task: directory{fd: -1},
	})
}

// retain removes the processes for which ok is false.
func (t *targets) retain(ok func(*observed) bool) {
	t.running = slices.DeleteFunc(t.running, func(o *observed) bool {
		if ok(o) {
			return false
		}
		t.gone(o)
		o.stat.close()
		o.task.close()
		unix.Close(o.dir)
		return true
	})
}

func (t *targets) close() { t.retain(func(*observed) bool { return false }) }

// readStat reads the stat file of the process; false if it has ended.
func (o *observed) readStat(buf *[]byte, s *process.Stat) bool {
	b, err := o.stat.read(buf)
	return err == nil && process.ParseStat(b, s) && !s.Ended() && s.StartTime == o.StartTime
}

// tids calls visit with each thread of the process.
func (o *observed) tids(visit func(tid int)) error {
	if o.task.fd < 0 {
		fd, err := unix.Openat(o.dir, "task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		o.task.fd = fd
	}
	return o.task.numbers(visit)
}
