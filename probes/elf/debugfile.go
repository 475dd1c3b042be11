package elf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// debugRoot is where distributions install separate debug files.
const debugRoot = "/usr/lib/debug"

// Search says where the separate debug files of modules are. The zero value is
// the directory of the distribution.
type Search struct {
	// Directories are searched before that of the distribution, in their order:
	// by build-id (.build-id/ab/cdef.debug), and by the path of the program
	// (usr/bin/x.debug).
	Directories []string
	// Fetcher, if not nil, is asked for debug files that are not found.
	Fetcher Fetcher
}

// Fetcher fetches debug files.
type Fetcher interface {
	// Fetch returns the path of a debug file by build-id. notice is for the user;
	// "": there is nothing new.
	Fetch(buildID string) (path, notice string)
	// Key is equal for fetchers that fetch the same files.
	Key() string
}

// key identifies what is searched.
func (s Search) key() string {
	key := strings.Join(s.Directories, "\x00")
	if s.Fetcher != nil {
		key += "\x00\x00" + s.Fetcher.Key()
	}
	return key
}

// roots returns the directories that are searched.
func (s Search) roots() []string { return append(slices.Clone(s.Directories), debugRoot) }

// maxViews limits the views of a cache.
const maxViews = 16

// With returns the cache of modules whose debug files are searched as s says;
// c itself if that is the distribution's directory only. It is closed with c.
func (c *Cache) With(s Search) *Cache {
	key := s.key()
	if key == c.search.key() {
		return c
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range c.views {
		if v.search.key() == key {
			c.views = append(slices.Delete(c.views, i, i+1), v) // the last used is the last
			return v
		}
	}
	v := &Cache{search: s}
	if c.views = append(c.views, v); len(c.views) > maxViews {
		c.views[0].Close()
		c.views = slices.Delete(c.views, 0, 1)
	}
	return v
}

// DebugFile opens the separate debug file of an ELF file; the caller closes it.
// It returns nil if there is none.
func (s Search) DebugFile(f *os.File) *os.File {
	im, err := OpenImage(f)
	if err != nil {
		return nil
	}
	_, debug, _ := s.openDebugFile(im, pathOf(f))
	if debug == nil && s.Fetcher != nil && im.buildID != "" {
		_, debug, _ = s.fetch(im.buildID)
	}
	return debug
}

// fetch fetches and opens the debug file of a build-id; nil if there is none.
func (s Search) fetch(buildID string) (debug *Image, file *os.File, notice string) {
	path, notice := s.Fetcher.Fetch(buildID)
	if path == "" {
		return nil, nil, notice
	}
	im, f := openRegular(path)
	if im != nil && im.buildID != buildID {
		f.Close()
		return nil, nil, notice
	}
	return im, f, notice
}

// SharedDebugFile opens the supplementary file of an ELF file; the caller
// closes it. It returns nil if there is none.
func (s Search) SharedDebugFile(f *os.File) *os.File {
	im, err := readImage(f)
	if err != nil {
		return nil
	}
	_, shared, _ := s.openShared(im, pathOf(f))
	return shared
}

// openDebugFile opens the separate debug file of im, whose own path is path (""
// if unknown), or returns nil. A debug file must carry the same build-id or, if
// there is none, the checksum that im names. other is a file found in its place
// that is of another build; "": none.
func (s Search) openDebugFile(im *Image, path string) (debug *Image, file *os.File, other string) {
	var candidates []string
	link, sum := debuglink(im)
	for _, root := range s.roots() {
		if len(im.buildID) > 2 {
			candidates = append(candidates, buildIDPath(root, im.buildID))
		}
	}
	if filepath.IsAbs(path) {
		dir := filepath.Dir(path)
		if link != "" {
			candidates = append(candidates, filepath.Join(dir, link), filepath.Join(dir, ".debug", link))
		}
		for _, root := range s.roots() {
			if link != "" {
				candidates = append(candidates, filepath.Join(root, dir, link))
			}
			if root != debugRoot && im.buildID != "" {
				candidates = append(candidates, filepath.Join(root, path+".debug"))
			}
		}
	}
	for _, c := range candidates {
		d, f := openRegular(c)
		if d == nil {
			continue
		}
		if d.buildID == im.buildID && (im.buildID != "" || hasSum(f, d.Size, sum)) {
			return d, f, ""
		}
		f.Close()
		other = cmp.Or(other, c)
	}
	return nil, nil, other
}

// openShared opens the supplementary file with which im, the file at path,
// shares debug information (dwz -m): nil, "" if im names none. name is its
// name, also if it is not found.
func (s Search) openShared(im *Image, path string) (shared *Image, file *os.File, name string) {
	name, want := sharedBy(im)
	if name == "" {
		return nil, nil, ""
	}
	var candidates []string
	for _, root := range s.roots() {
		candidates = append(candidates, filepath.Join(root, ".dwz", filepath.Base(name)))
		if len(want) > 2 {
			candidates = append(candidates, buildIDPath(root, want))
		}
	}
	switch {
	case filepath.IsAbs(name):
		candidates = append(candidates, name)
	case filepath.IsAbs(path):
		candidates = append(candidates, filepath.Join(filepath.Dir(path), name))
	}
	for _, c := range candidates {
		d, f := openRegular(c)
		if d == nil {
			continue
		}
		id := d.buildID
		if own, sum, ok := supplementOf(d); ok && own {
			id = sum
		}
		if id == want {
			return d, f, name
		}
		f.Close()
	}
	return nil, nil, name
}

// buildIDPath returns where the debug file of a build-id is installed.
func buildIDPath(root, id string) string {
	return filepath.Join(root, ".build-id", id[:2], id[2:]+".debug")
}

// openRegular opens an ELF file; nil if there is none at path.
func openRegular(path string) (*Image, *os.File) {
	// The path may be what a program says: opening a device can have effects.
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return nil, nil
	}
	// O_NONBLOCK: opening a pipe in place of the file must not block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil
	}
	im, err := readImage(f)
	if err != nil {
		f.Close()
		return nil, nil
	}
	return im, f
}

// maxSummed limits the size of debug files whose checksum is computed.
const maxSummed = 4 << 30

// hasSum reports whether a file has the checksum of a .gnu_debuglink.
func hasSum(f *os.File, size int64, want uint32) bool {
	if size > maxSummed {
		return false
	}
	h := crc32.NewIEEE()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, size))
	return err == nil && n == size && h.Sum32() == want
}

// sharedBy returns the supplementary file that im names, and its identity in
// hex: .gnu_debugaltlink, or .debug_sup (DWARF 5, 7.3.6).
func sharedBy(im *Image) (name, id string) {
	if b, _, _ := im.Section(".gnu_debugaltlink"); b != nil {
		link, id, _ := bytes.Cut(b, []byte{0})
		return string(link), hex.EncodeToString(id)
	}
	if own, sum, ok := supplementOf(im); ok && !own {
		b, _, _ := im.Section(".debug_sup")
		link, _, _ := bytes.Cut(b[3:], []byte{0})
		return string(link), sum
	}
	return "", ""
}

// supplementOf reads .debug_sup: whether the file is a supplementary one, and
// the checksum, in hex, of itself or of its supplementary file.
func supplementOf(im *Image) (own bool, sum string, ok bool) {
	b, _, _ := im.Section(".debug_sup")
	if len(b) < 4 || b[0] != 5 || b[1] != 0 {
		return false, "", false
	}
	_, id, found := bytes.Cut(b[3:], []byte{0})
	n, width := binary.Uvarint(id)
	if !found || width <= 0 || n != uint64(len(id)-width) {
		return false, "", false
	}
	return b[2] != 0, hex.EncodeToString(id[width:]), true
}

// pathOf returns the absolute path of an open file, "" if it has been unlinked.
func pathOf(f *os.File) string {
	raw, err := f.SyscallConn()
	if err != nil {
		return ""
	}
	var path string
	raw.Control(func(fd uintptr) {
		path, _ = os.Readlink(filepath.Join("/proc/self/fd", strconv.FormatUint(uint64(fd), 10)))
	})
	if !filepath.IsAbs(path) || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return path
}

// CheckBuildID refuses a file that is no ELF file with a build-id; the error
// says what the file is instead.
func CheckBuildID(f *os.File, want string) error {
	im, err := readImage(f)
	switch {
	case err != nil:
		return fmt.Errorf("is %w", err)
	case im.buildID != want:
		return fmt.Errorf("is of another build: %s", cmp.Or(im.buildID, "it has no build-id"))
	}
	return nil
}

// Path returns the absolute path of the module's file, as this process reaches
// it; "" if there is another file, or none, at its path: it may be in a
// container.
func (m *Module) Path() string {
	if m.image.file == nil {
		return ""
	}
	path := pathOf(m.image.file)
	own, err := m.image.file.Stat()
	there, wrong := os.Stat(path)
	if err != nil || wrong != nil || !os.SameFile(own, there) {
		return ""
	}
	return path
}
