package procfs

import (
	"maps"

	"golang.org/x/sys/unix"
)

// device is one of the devices of a file, with the readings of its counters.
type device[C any] struct {
	name    string
	ignored bool
	past    history[C]
	seen    int64 // the last sample that contained it
}

// deviceSampler reads a file that has a line of counters for each device.
type deviceSampler[C any] struct {
	file       file
	buf        []byte
	window     window
	time, name int // positions of the columns
	// parse parses a line; the name is nil if the line has no device, and ok is
	// false if the device yields no row.
	parse func(line text) (name []byte, c C, ok bool)
	rates func(then, now C, elapsed int64, out *output)
	// ignored reports devices without rows. It is called once for each; nil: none.
	ignored func(name string) bool
	devices map[string]*device[C]
}

func newDeviceSampler[C any](w window, path string, time, name int, parse func(text) ([]byte, C, bool), rates func(then, now C, elapsed int64, out *output)) *deviceSampler[C] {
	return &deviceSampler[C]{
		file: newFile(unix.AT_FDCWD, path, nil), buf: make([]byte, 16<<10), window: w,
		time: time, name: name, parse: parse, rates: rates, devices: map[string]*device[C]{},
	}
}

func (s *deviceSampler[C]) sample(at int64, out *output) error {
	b, err := s.file.read(&s.buf)
	if err != nil {
		return err
	}
	n := 0
	for t := text(b); ; {
		line, ok := t.line()
		if !ok {
			break
		}
		name, now, ok := s.parse(line)
		if name == nil {
			continue
		}
		d := s.devices[string(name)]
		if d == nil {
			d = &device[C]{name: string(name)}
			d.ignored = s.ignored != nil && s.ignored(d.name)
			s.devices[d.name] = d
		}
		n++
		d.seen = at
		if ok && !d.ignored {
			s.row(at, d, now, out)
		}
	}
	if len(s.devices) > n { // some have gone
		maps.DeleteFunc(s.devices, func(_ string, d *device[C]) bool { return d.seen != at })
	}
	return nil
}

func (s *deviceSampler[C]) row(at int64, d *device[C], now C, out *output) {
	since, then, ok := d.past.base(s.window, at, now)
	out.int(s.time, at)
	out.str(s.name, d.name)
	if elapsed := at - since; ok && elapsed > 0 {
		s.rates(then, now, elapsed, out)
	}
	out.emit()
}

func (s *deviceSampler[C]) close() { s.file.close() }
