package elf

import (
	"debug/elf"
	"errors"
	"fmt"
	"sync"
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

	deriving sync.Once // guards derived and failed
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
		return readDebugInfo(c.image)
	}
	if c.image.file == nil {
		return nil, ErrNoDebugInfo
	}
	im, f, _ := openDebugFile(c.image, pathOf(c.image.file), debugRoot)
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
func hasSection(im *Image, name string) bool { return debuginfo.Section(im.ELF, name) != nil }

func readDebugInfo(im *Image) (*DebugInfo, error) {
	path := ""
	if im.file != nil {
		path = pathOf(im.file)
	}
	shared, file, name := openShared(im, path, debugRoot)
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
	return &DebugInfo{Info: read}, nil
}
