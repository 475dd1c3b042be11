package elf

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
	"weak"

	"endoscope/probes/dwarf/debuginfo"
)

// DebugInfo is a module's debug information (DWARF 2 to 5), its own or that of
// a separate debug file.
type DebugInfo struct {
	*debuginfo.Info
	// Separate is the path of the debug file that it was read from, "" if it is
	// the module's own.
	Separate string

	split    *splitFiles // where the units are that are split
	deriving sync.Once   // guards derived and failed
	derived  any
	failed   error
}

// Derive returns the result of the first make, which is kept as long as the
// bytes are. There is one caller of it.
func (d *DebugInfo) Derive(make func() (any, error)) (any, error) {
	d.deriving.Do(func() { d.derived, d.failed = make() })
	return d.derived, d.failed
}

// debugInfo keeps debug information as long as it is in use, or memory
// suffices.
type debugInfo struct {
	mu   sync.Mutex
	read weak.Pointer[DebugInfo]
}

// ErrNoDebugInfo: the module has no debug information, and no debug file for it
// was found.
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
	defer RecoverAs(&err)
	if hasSection(c.image, "info") {
		return c.readFrom(c.image)
	}
	if c.image.file == nil {
		return nil, ErrNoDebugInfo
	}
	im, f, _ := c.openDebugFile()
	if im == nil || !hasSection(im, "info") {
		return nil, ErrNoDebugInfo
	}
	defer f.Close()
	if d, err = c.readFrom(im); err == nil {
		d.Separate = f.Name()
	}
	return d, err
}

// openDebugFile is Search.openDebugFile of the module. What is not found is
// fetched, if the search says so.
func (c *contents) openDebugFile() (debug *Image, file *os.File, other string) {
	debug, file, other = c.search.openDebugFile(c.image, pathOf(c.image.file))
	if debug != nil && hasSection(debug, "info") || c.search.Fetcher == nil || c.image.buildID == "" {
		return debug, file, other
	}
	fetched, f := c.fetch(c.image.buildID)
	if fetched == nil {
		return debug, file, other
	}
	if file != nil {
		file.Close()
	}
	return fetched, f, ""
}

// fetch fetches and opens the debug file of a build-id; nil if there is none.
func (c *contents) fetch(buildID string) (*Image, *os.File) {
	path, said := c.search.Fetcher.Fetch(buildID)
	if said != "" {
		c.said.Store(&said)
	}
	if path != "" {
		if im, f := openRegular(path); im != nil && im.buildID == buildID {
			return im, f
		} else if im != nil {
			f.Close()
		}
	}
	now := time.Now()
	c.unfetched.Store(&now)
	return nil, nil
}

// Said returns what is to be said about a debug file that was fetched, or could
// not be, since the last call; "": nothing.
func (m *Module) Said() string {
	if said := m.said.Swap(nil); said != nil {
		return *said
	}
	return ""
}

// hasSection reports whether a file has a section of debug information.
func hasSection(im *Image, name string) bool { return debuginfo.Section(im.ELF, name) != nil }

// readFrom reads the debug information in the module's own file or a debug file.
func (c *contents) readFrom(im *Image) (*DebugInfo, error) {
	own, path := "", ""
	if c.image.file != nil {
		own = pathOf(c.image.file)
	}
	if im.file != nil {
		path = pathOf(im.file)
	}
	shared, file, name := c.search.openShared(im, path)
	if _, id := sharedBy(im); name != "" && shared == nil && c.search.Fetcher != nil && len(id) > 2 {
		shared, file = c.fetch(id)
	}
	if name != "" && shared == nil {
		return nil, fmt.Errorf("shares debug information with other programs (dwz) in %s, which is not there", name)
	}
	var common *elf.File
	if shared != nil {
		defer file.Close()
		common = shared.ELF
	}
	read, err := debuginfo.ReadShared(im.ELF, common)
	if err != nil {
		return nil, err
	}
	return &DebugInfo{Info: read, split: &splitFiles{search: c.search, modules: slices.Compact([]string{own, path}), buildID: c.image.buildID}}, nil
}
