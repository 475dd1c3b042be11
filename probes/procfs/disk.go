package procfs

import (
	"endoscope/planner/catalog"
	"maps"
	"strings"

	"golang.org/x/sys/unix"
)

// Positions of the columns.
var (
	diskTime       = catalog.Position(catalog.DiskUsage, "timestamp")
	diskDevice     = catalog.Position(catalog.DiskUsage, "device")
	diskReads      = catalog.Position(catalog.DiskUsage, "reads_per_s")
	diskWrites     = catalog.Position(catalog.DiskUsage, "writes_per_s")
	diskReadBytes  = catalog.Position(catalog.DiskUsage, "read_bytes_per_s")
	diskWriteBytes = catalog.Position(catalog.DiskUsage, "write_bytes_per_s")
	diskBusy       = catalog.Position(catalog.DiskUsage, "percent_busy")
)

// sectorBytes is the unit of /proc/diskstats, independent of the device's own.
const sectorBytes = 512

type diskCounters struct{ reads, readSectors, writes, writeSectors, busyMs uint64 }

// disk is a block device. Partitions are remembered, so that they are not
// looked up at each sample, but yield no rows: their I/O is included in their
// disk's.
type disk struct {
	name  string
	whole bool
	past  history[diskCounters]
	seen  int64 // the last sample that contained it
}

// diskSampler reads /proc/diskstats (Documentation/admin-guide/iostats.rst).
type diskSampler struct {
	file   file
	buf    []byte
	window window
	disks  map[string]*disk
}

func newDiskSampler(w window) *diskSampler {
	return &diskSampler{
		file: newFile(unix.AT_FDCWD, "/proc/diskstats", nil), buf: make([]byte, 16<<10),
		window: w, disks: map[string]*disk{},
	}
}

func (s *diskSampler) sample(at int64, out *output) error {
	b, err := s.file.read(&s.buf)
	if err != nil {
		return err
	}
	t := text(b)
	n := 0
	for {
		line, ok := t.line()
		if !ok {
			break
		}
		line.skip(2) // major, minor
		name := line.word()
		d := s.disks[string(name)]
		if d == nil {
			d = newDisk(string(name))
			s.disks[d.name] = d
		}
		n++
		d.seen = at
		if d.whole {
			s.row(at, d, readDisk(line), out)
		}
	}
	if len(s.disks) > n {
		maps.DeleteFunc(s.disks, func(_ string, d *disk) bool { return d.seen != at })
	}
	return nil
}

func newDisk(name string) *disk {
	// sysfs writes the slash of a name such as cciss/c0d0 as an exclamation mark.
	var st unix.Stat_t
	err := unix.Stat("/sys/block/"+strings.ReplaceAll(name, "/", "!"), &st)
	return &disk{name: name, whole: err == nil}
}

func readDisk(line text) (c diskCounters) {
	c.reads = line.count()
	line.skip(1) // merged
	c.readSectors = line.count()
	line.skip(1) // ms
	c.writes = line.count()
	line.skip(1)
	c.writeSectors = line.count()
	line.skip(2) // ms, in flight
	c.busyMs = line.count()
	return c
}

func (s *diskSampler) row(at int64, d *disk, now diskCounters, out *output) {
	if now == (diskCounters{}) {
		return // never used, like most loop and RAM devices
	}
	since, then, ok := d.past.base(s.window, at, now)
	out.int(diskTime, at)
	out.str(diskDevice, d.name)
	if elapsed := at - since; ok && elapsed > 0 {
		out.float(diskReads, perSecond(then.reads, now.reads, elapsed))
		out.float(diskWrites, perSecond(then.writes, now.writes, elapsed))
		out.float(diskReadBytes, sectorBytes*perSecond(then.readSectors, now.readSectors, elapsed))
		out.float(diskWriteBytes, sectorBytes*perSecond(then.writeSectors, now.writeSectors, elapsed))
		// Milliseconds per second are tenths of a percent; the kernel's counter
		// may be a tick ahead of our clock.
		out.float(diskBusy, min(100, perSecond(then.busyMs, now.busyMs, elapsed)/10))
	}
	out.emit()
}

func (s *diskSampler) close() { s.file.close() }
