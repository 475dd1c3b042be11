package symbols

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// debugRoot is where distributions install separate debug files.
const debugRoot = "/usr/lib/debug"

// openDebugFile opens the separate debug file of im, whose own path is path
// (which may be unknown, ""), or returns nil. A debug file counts only if it
// carries the same build-id.
func openDebugFile(im *image, path, root string) (*image, *os.File) {
	if len(im.buildID) < 3 {
		return nil, nil
	}
	candidates := []string{filepath.Join(root, ".build-id", im.buildID[:2], im.buildID[2:]+".debug")}
	if link := debuglink(im); link != "" && filepath.IsAbs(path) {
		dir := filepath.Dir(path)
		candidates = append(candidates, filepath.Join(dir, link), filepath.Join(dir, ".debug", link), filepath.Join(root, dir, link))
	}
	for _, c := range candidates {
		// O_NONBLOCK: a pipe in the place of the file must not stop us.
		f, err := os.OpenFile(c, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if d, err := openImage(f); err == nil && d.buildID == im.buildID {
			return d, f
		}
		f.Close()
	}
	return nil, nil
}

// pathOf is the absolute path of an open file, "" if it has none any more.
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

// DebugFile opens the separate debug file of an ELF file, which the caller closes;
// nil if there is none.
func DebugFile(f *os.File) *os.File {
	im, err := openImage(f)
	if err != nil {
		return nil
	}
	_, debug := openDebugFile(im, pathOf(f), debugRoot)
	return debug
}
