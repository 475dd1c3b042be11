package variable

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// writers finds the functions that contain instructions of a process.
type writers struct {
	cache   *elf.Cache
	image   image // image that has the instructions
	regions []region
	read    time.Time
	modules map[string]*elf.Module            // by path; nil: unreadable
	sources map[*elf.Module]*debuginfo.Source // nil: it has none
	names   map[uint64]string                 // by address
}

// region is a mapping of code; its module is opened on first use.
type region struct {
	start, end uint64
	mapping    process.Mapping
}

// Limits of the caches, and of rereading mappings for an address outside all of
// them.
const (
	maxNames = 1 << 16
	again    = 100 * time.Millisecond
	// maxForInlined limits the compressed debug information that is unpacked for inlined calls.
	maxForInlined = 256 << 20
)

// function returns the function with the instruction before an address; "" if
// unknown.
func (w *writers) function(pid int, next uint64) string {
	if name, ok := w.names[next]; ok {
		return name
	}
	at := next - 1
	r := w.find(at)
	if r == nil && time.Since(w.read) > again {
		w.refresh(pid)
		r = w.find(at)
	}
	if r == nil || r.mapping.Inode == 0 {
		return ""
	}
	module := w.module(pid, r.mapping)
	if module == nil {
		return ""
	}
	name := ""
	if addr, ok := module.AddrOf(at - r.start + r.mapping.Offset); ok {
		if i, ok := module.FunctionAt(addr); ok {
			name = module.Function(i).Name
		}
		if inlined, _ := module.Calls(addr, w.source(module), false); len(inlined) > 0 {
			name = inlined[0].Name
		}
	}
	if len(w.names) >= maxNames || w.names == nil {
		w.names = map[uint64]string{}
	}
	w.names[next] = name
	return name
}

// source returns where a module's inlined calls are known from; nil: they are not known, or they
// are Go's.
func (w *writers) source(m *elf.Module) *debuginfo.Source {
	s, known := w.sources[m]
	if !known && !m.HasGo() {
		s, _ = m.SourceWithin(maxForInlined)
		if w.sources == nil {
			w.sources = map[*elf.Module]*debuginfo.Source{}
		}
		w.sources[m] = s
	}
	return s
}

func (w *writers) find(addr uint64) *region {
	i, found := slices.BinarySearchFunc(w.regions, addr, func(r region, addr uint64) int { return cmp.Compare(r.start, addr) })
	if !found {
		i--
	}
	if i < 0 || addr >= w.regions[i].end {
		return nil
	}
	return &w.regions[i]
}

// refresh reads the mappings of a process that still runs the image.
func (w *writers) refresh(pid int) {
	w.read = time.Now()
	text, err := process.Text(pid)
	if err != nil || len(text) == 0 || !w.image.runs(pid) {
		return
	}
	clear(w.names)
	w.regions = w.regions[:0]
	for _, m := range text {
		w.regions = append(w.regions, region{m.Start, m.End, m})
	}
}

func (w *writers) module(pid int, m process.Mapping) *elf.Module {
	if have, ok := w.modules[m.Path]; ok {
		return have
	}
	var module *elf.Module
	f, err := process.OpenModule(pid, m)
	if err != nil {
		f, err = process.OpenLeft(pid, m)
	}
	if err == nil {
		if opened, err := w.cache.Open(f, filepath.Base(m.Path)); err == nil {
			module = opened
		}
		f.Close()
	}
	if w.modules == nil {
		w.modules = map[string]*elf.Module{}
	}
	w.modules[m.Path] = module
	return module
}

func (w *writers) close() {
	for _, m := range w.modules {
		if m != nil {
			m.Close()
		}
	}
	w.modules, w.sources, w.regions = nil, nil, nil
}
