package procfs

import (
	"endoscope/planner/catalog"

	"golang.org/x/sys/unix"
)

// Positions of the columns; the averages are those of 10, 60 and 300 s.
var (
	pressureTime     = catalog.Position(catalog.Pressure, "timestamp")
	pressureResource = catalog.Position(catalog.Pressure, "resource")
	pressureSomeAvg  = catalog.Positions(catalog.Pressure, "some_avg10", "some_avg60", "some_avg300")
	pressureFullAvg  = catalog.Positions(catalog.Pressure, "full_avg10", "full_avg60", "full_avg300")
	pressureSome     = catalog.Position(catalog.Pressure, "some_percent")
	pressureFull     = catalog.Position(catalog.Pressure, "full_percent")
)

// pressureTotals is the µs since boot in which some, or all, tasks waited.
type pressureTotals struct{ some, full uint64 }

type resource struct {
	name string
	file file
	past history[pressureTotals]
}

// pressureSampler reads /proc/pressure/{cpu,memory,io} (Documentation/accounting/psi.rst).
type pressureSampler struct {
	resources []*resource
	buf       []byte
	window    window
}

func newPressureSampler(w window) *pressureSampler {
	s := &pressureSampler{buf: make([]byte, 4096), window: w}
	for _, name := range []string{"cpu", "memory", "io"} {
		s.resources = append(s.resources, &resource{name: name, file: newFile(unix.AT_FDCWD, "/proc/pressure/"+name, nil)})
	}
	return s
}

func (s *pressureSampler) sample(at int64, out *output) error {
	for _, r := range s.resources {
		b, err := r.file.read(&s.buf)
		if err != nil {
			return err
		}
		s.row(at, r, b, out)
	}
	return nil
}

func (s *pressureSampler) row(at int64, r *resource, t text, out *output) {
	out.int(pressureTime, at)
	out.str(pressureResource, r.name)
	var now pressureTotals
	full := false // older kernels have no such line for cpu
	for {
		line, ok := t.line()
		if !ok {
			break
		}
		switch string(line.word()) {
		case "some":
			now.some = readPressure(line, pressureSomeAvg, out)
		case "full":
			now.full = readPressure(line, pressureFullAvg, out)
			full = true
		}
	}
	since, then, ok := r.past.base(s.window, at, now)
	if elapsed := at - since; ok && elapsed > 0 {
		// µs per second are 1/10,000 of a percent.
		out.float(pressureSome, min(100, perSecond(then.some, now.some, elapsed)/1e4))
		if full {
			out.float(pressureFull, min(100, perSecond(then.full, now.full, elapsed)/1e4))
		}
	}
	out.emit()
}

// readPressure parses "avg10=0.00 avg60=0.00 avg300=0.00 total=0", sets the
// three averages and returns the total.
func readPressure(line text, columns []int, out *output) uint64 {
	for i, key := range [...]string{"avg10=", "avg60=", "avg300="} {
		if v, ok := line.after(key); ok {
			if average, ok := v.decimal(); ok {
				out.float(columns[i], average)
			}
		}
	}
	total, _ := line.after("total=")
	return total.count()
}

func (s *pressureSampler) close() {
	for _, r := range s.resources {
		r.file.close()
	}
}
