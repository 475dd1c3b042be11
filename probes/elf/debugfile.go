package elf

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// debugRoot is where distributions install separate debug files.
const debugRoot = "/usr/lib/debug"

// openDebugFile opens the separate debug file of im, whose own path is path (""
// if unknown), or returns nil. A debug file must carry the same build-id or, if
// there is none, the checksum that im names. other is a file found in its place
// that is of another build; "": none.
func openDebugFile(im *Image, path, root string) (debug *Image, file *os.File, other string) {
	var candidates []string
	if len(im.buildID) > 2 {
		candidates = append(candidates, buildIDPath(root, im.buildID))
	}
	link, sum := debuglink(im)
	if link != "" && filepath.IsAbs(path) {
		dir := filepath.Dir(path)
		candidates = append(candidates, filepath.Join(dir, link), filepath.Join(dir, ".debug", link), filepath.Join(root, dir, link))
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
		if other == "" {
			other = c
		}
	}
	return nil, nil, other
}

// buildIDPath returns where the debug file of a build-id is installed.
func buildIDPath(root, id string) string {
	return filepath.Join(root, ".build-id", id[:2], id[2:]+".debug")
}

// openRegular opens an ELF file; nil if there is none at path.
func openRegular(path string) (*Image, *os.File) {
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

// openShared opens the supplementary file with which im, the file at path,
// shares debug information (dwz -m): nil, "" if im names none. name is its
// name, also if it is not found.
func openShared(im *Image, path, root string) (shared *Image, file *os.File, name string) {
	name, want := sharedBy(im)
	if name == "" {
		return nil, nil, ""
	}
	candidates := []string{filepath.Join(root, ".dwz", filepath.Base(name))}
	if len(want) > 2 {
		candidates = append(candidates, buildIDPath(root, want))
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

// DebugFile opens the separate debug file of an ELF file; the caller closes it.
// It returns nil if there is none.
func DebugFile(f *os.File) *os.File {
	im, err := OpenImage(f)
	if err != nil {
		return nil
	}
	_, debug, _ := openDebugFile(im, pathOf(f), debugRoot)
	return debug
}

// SharedDebugFile opens the supplementary file of an ELF file; the caller
// closes it. It returns nil if there is none.
func SharedDebugFile(f *os.File) *os.File {
	im, err := readImage(f)
	if err != nil {
		return nil
	}
	_, shared, _ := openShared(im, pathOf(f), debugRoot)
	return shared
}
