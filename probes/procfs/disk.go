package procfs

import (
	"endoscope/planner/catalog"
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

// newDiskSampler reads /proc/diskstats (Documentation/admin-guide/iostats.rst).
// Partitions yield no rows: their I/O is included in their disk's.
func newDiskSampler(w window) *deviceSampler[diskCounters] {
	s := newDeviceSampler(w, "/proc/diskstats", diskTime, diskDevice, readDisk, diskRates)
	s.ignored = isPartition
	return s
}

func isPartition(name string) bool {
	// sysfs writes the slash of a name such as cciss/c0d0 as an exclamation mark.
	var st unix.Stat_t
	return unix.Stat("/sys/block/"+strings.ReplaceAll(name, "/", "!"), &st) != nil
}

// readDisk parses a line; not ok if the device was never used, as most loop and
// RAM devices.
func readDisk(line text) (name []byte, c diskCounters, ok bool) {
	line.skip(2) // major, minor
	name = line.word()
	c.reads = line.count()
	line.skip(1) // merged
	c.readSectors = line.count()
	line.skip(1) // ms
	c.writes = line.count()
	line.skip(1)
	c.writeSectors = line.count()
	line.skip(2) // ms, in flight
	c.busyMs = line.count()
	return name, c, c != diskCounters{}
}

func diskRates(then, now diskCounters, elapsed int64, out *output) {
	out.float(diskReads, perSecond(then.reads, now.reads, elapsed))
	out.float(diskWrites, perSecond(then.writes, now.writes, elapsed))
	out.float(diskReadBytes, sectorBytes*perSecond(then.readSectors, now.readSectors, elapsed))
	out.float(diskWriteBytes, sectorBytes*perSecond(then.writeSectors, now.writeSectors, elapsed))
	// Milliseconds per second are tenths of a percent; the kernel's counter
	// may be a tick ahead of our clock.
	out.float(diskBusy, min(100, perSecond(then.busyMs, now.busyMs, elapsed)/10))
}
