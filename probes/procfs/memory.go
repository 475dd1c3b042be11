package procfs

import (
	"endoscope/planner/catalog"

	"golang.org/x/sys/unix"
)

// Positions of the columns.
var (
	memoryTime        = catalog.Position(catalog.MemoryUsage, "timestamp")
	memoryTotal       = catalog.Position(catalog.MemoryUsage, "total")
	memoryUsed        = catalog.Position(catalog.MemoryUsage, "used")
	memoryAvailable   = catalog.Position(catalog.MemoryUsage, "available")
	memoryPercentUsed = catalog.Position(catalog.MemoryUsage, "percent_used")
	memoryCached      = catalog.Position(catalog.MemoryUsage, "cached")
	memorySwapUsed    = catalog.Position(catalog.MemoryUsage, "swap_used")
)

// memorySampler reads /proc/meminfo (proc_meminfo(5)), in KiB.
type memorySampler struct {
	file file
	buf  []byte
}

func newMemorySampler() *memorySampler {
	return &memorySampler{file: newFile(unix.AT_FDCWD, "/proc/meminfo", nil), buf: make([]byte, 4096)}
}

func (s *memorySampler) sample(at int64, out *output) error {
	b, err := s.file.read(&s.buf)
	if err != nil {
		return err
	}
	var total, available, cached, swapTotal, swapFree uint64
	t := text(b)
	for {
		line, ok := t.line()
		if !ok {
			break
		}
		var to *uint64
		switch string(line.word()) {
		case "MemTotal:":
			to = &total
		case "MemAvailable:":
			to = &available
		case "Cached:":
			to = &cached
		case "SwapTotal:":
			to = &swapTotal
		case "SwapFree:":
			to = &swapFree
		default:
			continue
		}
		*to = line.count() << 10
	}
	used := total - min(available, total)
	out.int(memoryTime, at)
	out.count(memoryTotal, total)
	out.count(memoryUsed, used)
	out.count(memoryAvailable, available)
	if total > 0 {
		out.float(memoryPercentUsed, 100*float64(used)/float64(total))
	}
	out.count(memoryCached, cached)
	out.count(memorySwapUsed, swapTotal-min(swapFree, swapTotal))
	out.emit()
	return nil
}

func (s *memorySampler) close() { s.file.close() }
