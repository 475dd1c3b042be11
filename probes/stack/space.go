package stack

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"endoscope/probes/process"
)

// space is the code that a process can execute.
type space struct {
	process      process.Process
	image        uint64 // the program image that the mappings belong to
	regions      []region
	read         time.Time // when the mappings were read
	pause        time.Duration
	last         int // index of the region found last
	golang       *golangProcess
	interpreters *interpreters
	jit          *jit
	java         *javaProcess
	lasting      bool  // the program it executed remains known after it has ended
	at           int64 // boot clock time of the sample being unwound
}

// region is a range of addresses of a module.
type region struct {
	start, end, offset uint64
	module             *module
}

// Mappings are reread when an address lies in none, after a pause that doubles from
// soon to late each time that nothing has changed, and at the latest after late: other
// code may have replaced unloaded code.
const (
	soon = time.Millisecond
	late = 2 * time.Second
)

// find returns the region that holds addr, nil if there is none.
func (s *space) find(addr uint64) *region {
	if r := &s.regions[s.last]; addr >= r.start && addr < r.end {
		return r
	}
	i, found := slices.BinarySearchFunc(s.regions, addr, func(r region, addr uint64) int { return cmp.Compare(r.start, addr) })
	if !found {
		i--
	}
	if i < 0 || addr >= s.regions[i].end {
		return nil
	}
	s.last = i
	return &s.regions[i]
}

// refresh reads the mappings.
func (s *space) refresh(ms *modules, now time.Time) {
	var text []process.Mapping
	exe := s.process.Exe
	if ms.mappingsBefore != nil {
		if text, exe = ms.mappingsBefore(s.process.PID, s.at); exe == "" {
			exe = s.process.Exe
		}
	}
	if len(text) == 0 {
		text, _ = process.Text(s.process.PID) // nothing if it has ended
	}
	if len(text) == 0 && s.lasting && len(s.regions) > 0 {
		s.read = now
		s.wait()
		return
	}
	old := s.regions
	s.regions = make([]region, 0, len(text)+1)
	for _, m := range text {
		s.regions = append(s.regions, region{m.Start, m.End, m.Offset, ms.moduleAt(s.process.PID, m, m.Path == exe)})
	}
	if len(s.regions) == 0 {
		s.regions = append(s.regions, region{}) // so that s.last is a valid index
	}
	s.read, s.last = now, 0
	if s.golang != nil && (s.golang.image != s.image || s.golang.process == nil) {
		s.golang = nil
	}
	if s.interpreters != nil && (s.interpreters.image != s.image || len(s.interpreters.all) == 0) {
		s.interpreters = nil
	}
	if s.jit != nil && (s.jit.image != s.image || s.jit.code == nil) {
		s.jit = nil
	}
	if slices.Equal(old, s.regions) {
		s.wait()
	} else {
		s.pause = 0
	}
}

// wait increases the pause before the mappings are read again.
func (s *space) wait() { s.pause = min(max(2*s.pause, soon), late) }

// remote reads memory of a process that was not copied with a sample.
type remote struct {
	pid  int
	page uint64 // address of what is in buf; 0: nothing
	n    int
	buf  [4096]byte
}

func (r *remote) reset(pid int) { r.pid, r.page, r.n = pid, 0, 0 }

// word reads 8 bytes at addr.
func (r *remote) word(addr uint64) (uint64, bool) {
	if addr&7 != 0 && addr&4095 > 4088 { // across pages: no stack has that
		return 0, false
	}
	if page := addr &^ 4095; page != r.page || r.n == 0 {
		r.page, r.n = page, process.ReadMemory(r.pid, r.buf[:], page)
	}
	at := int(addr - r.page)
	if at+8 > r.n {
		return 0, false
	}
	return binary.LittleEndian.Uint64(r.buf[at:]), true
}
