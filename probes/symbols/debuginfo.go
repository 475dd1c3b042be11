package symbols

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"weak"
)

// maxDebugBytes bounds what is read of debug information, unpacked.
const maxDebugBytes = 1 << 30

// DebugInfo is a module's debug information (DWARF 2 to 5), its own or that of a separate
// debug file.
type DebugInfo struct {
	*dwarf.Data
	// Locations are .debug_loc (DWARF 2 to 4), LocationLists and Addresses .debug_loclists
	// and .debug_addr (DWARF 5); nil where there are none.
	Locations, LocationLists, Addresses []byte
	// Separate is the path of the debug file that it was read from, "" if it is the
	// module's own.
	Separate string
}

// debugInfo keeps debug information as long as somebody uses it, or memory is not short.
type debugInfo struct {
	mu   sync.Mutex
	read weak.Pointer[DebugInfo]
}

// ErrNoDebugInfo: the module has no debug information, and no debug file of it was found.
var ErrNoDebugInfo = errors.New("has no debug information")

// DebugInfo reads the module's debug information.
func (m *Module) DebugInfo() (*DebugInfo, error) {
	m.debugInfo.mu.Lock()
	defer m.debugInfo.mu.Unlock()
	if d := m.debugInfo.read.Value(); d != nil {
		return d, nil
	}
	d, err := m.contents.readDebugInfo()
	if err != nil {
		return nil, err
	}
	m.debugInfo.read = weak.Make(d)
	return d, nil
}

func (c *contents) readDebugInfo() (d *DebugInfo, err error) {
	defer recoverAs(&err)
	if hasSection(c.image, "info") {
		return readDebugInfo(c.image)
	}
	file, _ := c.image.r.(*os.File)
	if file == nil {
		return nil, ErrNoDebugInfo
	}
	im, f := openDebugFile(c.image, pathOf(file), debugRoot)
	if im == nil || !hasSection(im, "info") {
		return nil, ErrNoDebugInfo
	}
	defer f.Close()
	if d, err = readDebugInfo(im); err == nil {
		d.Separate = f.Name()
	}
	return d, err
}

// hasSection reports whether a file has a section of debug information.
func hasSection(im *image, name string) bool { return debugSection(im, name) != nil }

// debugSection finds a section, compressed or not.
func debugSection(im *image, name string) *elf.Section {
	for _, s := range im.elf.Sections {
		if s.Type != elf.SHT_NOBITS && (s.Name == ".debug_"+name || s.Name == ".zdebug_"+name) {
			return s
		}
	}
	return nil
}

func readDebugInfo(im *image) (*DebugInfo, error) {
	total := uint64(0)
	read := map[string][]byte{}
	for _, name := range []string{"abbrev", "info", "str", "line", "ranges", "rnglists", "line_str", "str_offsets", "addr", "loc", "loclists"} {
		s := debugSection(im, name)
		if s == nil {
			continue
		}
		// What it says of its size is only believed so far.
		if total += s.Size; s.Size > maxDebugBytes || total > maxDebugBytes {
			return nil, fmt.Errorf("has more than %d MiB of debug information", maxDebugBytes>>20)
		}
		b, err := io.ReadAll(io.LimitReader(s.Open(), int64(s.Size)))
		if err != nil {
			return nil, fmt.Errorf("has debug information that cannot be read: %s: %w", s.Name, err)
		}
		if strings.HasPrefix(s.Name, ".zdebug_") {
			if b, err = s.Data(); err != nil {
				return nil, fmt.Errorf("has debug information that cannot be read: %s: %w", s.Name, err)
			}
		}
		read[name] = b
	}
	data, err := dwarf.New(read["abbrev"], nil, nil, read["info"], read["line"], nil, read["ranges"], read["str"])
	if err != nil {
		return nil, fmt.Errorf("has damaged debug information: %w", err)
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if b := read[name]; b != nil {
			if err := data.AddSection(".debug_"+name, b); err != nil {
				return nil, fmt.Errorf("has damaged debug information: %w", err)
			}
		}
	}
	return &DebugInfo{Data: data, Locations: read["loc"], LocationLists: read["loclists"], Addresses: read["addr"]}, nil
}
