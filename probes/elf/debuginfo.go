package elf

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// fetch is Search.fetch of the module.
func (c *contents) fetch(buildID string) (*Image, *os.File) {
	im, f, notice := c.search.fetch(buildID)
	if notice != "" {
		c.notice.Store(&notice)
	}
	if im == nil {
		now := time.Now()
		c.unfetched.Store(&now)
	}
	return im, f
}

// Notice returns a notice about a debug file that was fetched, or could not be,
// since the last call; "": there is none.
func (m *Module) Notice() string {
	if notice := m.notice.Swap(nil); notice != nil {
		return *notice
	}
	return ""
}

// hasSection reports whether a file has a section of debug information.
func hasSection(im *Image, name string) bool { return debuginfo.Section(im.ELF, name) != nil }

// readFrom reads the debug information in the module's own file or a debug file.
func (c *contents) readFrom(im *Image) (*DebugInfo, error) {
	shared, file, err := c.openCommon(im)
	if err != nil {
		return nil, err
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
	return &DebugInfo{Info: read, split: c.splitFiles(im)}, nil
}

// errShared is the error of a file that shares debug information with others.
func errShared(name string) error {
	return fmt.Errorf("shares debug information with other programs (dwz) in %s, which is not there", name)
}

// source keeps the source positions of a module as long as they are in use.
type source struct {
	mu   sync.Mutex
	read weak.Pointer[debuginfo.Source]
}

// Source returns the source positions of the module's code, from its own debug information or
// that of a separate debug file. It reads little of it: see debuginfo.Source. The caller keeps
// the result while it needs it. A Go program's come from its pclntab: see SourceLine.
func (m *Module) Source() (*debuginfo.Source, error) {
	m.source.mu.Lock()
	defer m.source.mu.Unlock()
	if s := m.source.read.Value(); s != nil {
		return s, nil
	}
	s, err := m.contents.readSource()
	if err != nil {
		return nil, err
	}
	m.source.read = weak.Make(s)
	return s, nil
}

func (c *contents) readSource() (s *debuginfo.Source, err error) {
	defer RecoverAs(&err)
	if c.image.file == nil {
		return nil, ErrNoDebugInfo
	}
	if hasSection(c.image, "line") {
		return c.sourceFrom(c.image)
	}
	im, f, _ := c.openDebugFile()
	if f != nil {
		defer f.Close()
	}
	if im == nil || !hasSection(im, "line") {
		return nil, ErrNoDebugInfo
	}
	return c.sourceFrom(im)
}

// sourceFrom reads the source positions in the module's own file or a debug file.
func (c *contents) sourceFrom(im *Image) (*debuginfo.Source, error) {
	shared, file, err := c.openCommon(im)
	if err != nil {
		return nil, err
	}
	var common *elf.File
	if shared != nil {
		defer file.Close()
		common = shared.ELF
	}
	return debuginfo.OpenSource(im.ELF, im.file, common, c.splitFiles(im).read)
}

// openCommon opens the supplementary file of the module's own file or a debug file; nil if it
// names none.
func (c *contents) openCommon(im *Image) (shared *Image, file *os.File, err error) {
	path := ""
	if im.file != nil {
		path = pathOf(im.file)
	}
	shared, file, name := c.search.openShared(im, path)
	if _, id := sharedBy(im); name != "" && shared == nil && c.search.Fetcher != nil && len(id) > 2 {
		shared, file = c.fetch(id)
	}
	if name != "" && shared == nil {
		return nil, nil, errShared(name)
	}
	return shared, file, nil
}

// splitFiles returns where the units are that are split, of the module's own file or a debug
// file.
func (c *contents) splitFiles(im *Image) *splitFiles {
	own, path := "", ""
	if c.image.file != nil {
		own = pathOf(c.image.file)
	}
	if im.file != nil {
		path = pathOf(im.file)
	}
	return &splitFiles{search: c.search, modules: slices.Compact([]string{own, path}), buildID: c.image.buildID}
}

// splitFiles are the files in which the units of a module are whose debug
// information is split.
type splitFiles struct {
	search  Search
	modules []string // paths of the module and of its debug file; "": unknown
	buildID string

	mu      sync.Mutex
	opened  bool
	pack    *debuginfo.SplitFile // of all units, PROG.dwp; nil: there is none
	packed  *os.File             // it stays open
	packErr error                // why it cannot be read
}

// Whole returns the debug information of a unit by the unit's entry: d, if the
// unit is not split, or that of its .dwo file or package.
func (d *DebugInfo) Whole(unit *dwarf.Entry) (*DebugInfo, error) {
	s := d.Skeleton(unit)
	if s == nil {
		return d, nil
	}
	if d.split == nil {
		return nil, errors.New("has its debug information in other files")
	}
	read, err := d.split.read(d.Info, s)
	if err != nil {
		return nil, err
	}
	return &DebugInfo{Info: read, Separate: d.Separate}, nil
}

// SplitUnits reads the units of an ELF file that are in other files.
type SplitUnits struct{ files *splitFiles }

// SplitUnits returns the reader of the split units of an ELF file; separate is its
// debug file, or nil.
func (s Search) SplitUnits(f, separate *os.File) *SplitUnits {
	files := &splitFiles{search: s, modules: []string{pathOf(f)}}
	if separate != nil {
		files.modules = append(files.modules, pathOf(separate))
	}
	if im, err := readImage(f); err == nil {
		files.buildID = im.buildID
	}
	return &SplitUnits{files}
}

// Whole returns the debug information of a unit of d by the unit's entry: d, if
// the unit is not split.
func (u *SplitUnits) Whole(d *debuginfo.Info, unit *dwarf.Entry) (*debuginfo.Info, error) {
	s := d.Skeleton(unit)
	if s == nil {
		return d, nil
	}
	return u.files.read(d, s)
}

// read reads the unit of a skeleton.
func (f *splitFiles) read(d *debuginfo.Info, s *debuginfo.Skeleton) (*debuginfo.Info, error) {
	pack, wrong := f.openPackage()
	if pack != nil {
		read, err := d.ReadSplit(s, pack)
		if !errors.Is(err, debuginfo.ErrOtherUnit) {
			return read, err
		}
		wrong = fmt.Errorf("has its debug information in %s, and %s beside it %w", s.Name, filepath.Base(f.packed.Name()), err)
	}
	for _, path := range f.unitPaths(s) {
		im, file := openRegular(path)
		if im == nil {
			continue
		}
		read, err := readUnit(d, s, im)
		file.Close()
		if !errors.Is(err, debuginfo.ErrOtherUnit) {
			return read, err
		}
		wrong = fmt.Errorf("has its debug information in %s, and %s %w", s.Name, path, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	beside := ""
	if path := f.modules[0]; path != "" {
		beside = fmt.Sprintf(", nor is there a package %s.dwp", path)
	}
	at := s.Name
	if !filepath.IsAbs(at) {
		at = filepath.Join(s.Dir, at)
	}
	return nil, fmt.Errorf("has its debug information in %s, which is not there%s", at, beside)
}

func readUnit(d *debuginfo.Info, s *debuginfo.Skeleton, im *Image) (*debuginfo.Info, error) {
	file, err := debuginfo.OpenSplit(im.ELF, im.Size)
	if err != nil {
		return nil, err
	}
	return d.ReadSplit(s, file)
}

// unitPaths returns where the .dwo file of a skeleton may be: where the compiler
// wrote it, beside the program, or in a directory of debug files.
func (f *splitFiles) unitPaths(s *debuginfo.Skeleton) (out []string) {
	written := s.Name
	if !filepath.IsAbs(written) {
		written = filepath.Join(s.Dir, written)
	}
	if filepath.IsAbs(written) {
		out = append(out, written)
	}
	for _, m := range f.modules {
		if m == "" {
			continue
		}
		dir := filepath.Dir(m)
		if !filepath.IsAbs(s.Name) {
			out = append(out, filepath.Join(dir, s.Name))
		}
		out = append(out, filepath.Join(dir, filepath.Base(s.Name)))
	}
	for _, root := range f.search.roots() {
		out = append(out, filepath.Join(root, written))
	}
	return out
}

// openPackage opens the package of the module's units, if there is one.
func (f *splitFiles) openPackage() (*debuginfo.SplitFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened {
		return f.pack, f.packErr
	}
	f.opened = true
	var candidates []string
	for _, m := range f.modules {
		if m != "" {
			candidates = append(candidates, m+".dwp", strings.TrimSuffix(m, ".debug")+".dwp")
		}
	}
	for _, root := range f.search.roots() {
		if len(f.buildID) > 2 {
			candidates = append(candidates, strings.TrimSuffix(buildIDPath(root, f.buildID), ".debug")+".dwp")
		}
		for _, m := range f.modules {
			if m != "" {
				candidates = append(candidates, filepath.Join(root, m+".dwp"))
			}
		}
	}
	for _, c := range candidates {
		im, file := openRegular(c)
		if im == nil {
			continue
		}
		if f.pack, f.packErr = debuginfo.OpenSplit(im.ELF, im.Size); f.packErr != nil {
			file.Close()
			f.packErr = fmt.Errorf("has its debug information in %s, which %w", c, f.packErr)
			continue
		}
		f.packed, f.packErr = file, nil
		return f.pack, nil
	}
	return nil, f.packErr
}
