package debugfiles

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"endoscope/probes/elf"
)

// dpkgInfo is where Debian's dpkg keeps the list of the files of each package.
const dpkgInfo = "/var/lib/dpkg/info"

// Limits of reading the lists.
const (
	maxListed = 16 << 20  // bytes of a list
	maxLists  = 512 << 20 // and of all
)

// Where says which package of the distribution has the debug file of a module, to be read after
// a colon; "" if it is not known.
func Where(m *elf.Module) string {
	path := m.Path()
	if path == "" {
		return ""
	}
	switch name, installed := Package(path); {
	case name == "":
		return ""
	case installed:
		return "the package " + name + " is installed, and its debug file is of another build"
	default:
		return "the package " + name + " has it"
	}
}

// Package returns Debian's package of the debug files of a program or library, and whether it
// is installed: "" if no package has the program. It reads dpkg's lists, and runs nothing.
func Package(path string) (name string, installed bool) { return packageIn(dpkgInfo, path) }

func packageIn(info, path string) (name string, installed bool) {
	paths := []string{path}
	// Packages may list files by the path that they had before /lib became a link to /usr/lib.
	if rest, ok := strings.CutPrefix(path, "/usr"); ok {
		paths = append(paths, rest)
	} else {
		paths = append(paths, "/usr"+path)
	}
	lists, _ := filepath.Glob(filepath.Join(info, "*.list"))
	left := int64(maxLists)
	owner := ""
	for _, list := range lists {
		n, found := listed(list, paths)
		if left -= n; left < 0 {
			return "", false
		}
		if found {
			owner = strings.TrimSuffix(filepath.Base(list), ".list")
			break
		}
	}
	if owner == "" {
		return "", false
	}
	own, arch, several := strings.Cut(owner, ":")
	name = own + "-dbgsym"
	if own == "libc6" {
		name = "libc6-dbg" // the one that is built by hand
	}
	for _, list := range []string{name + ".list", name + ":" + arch + ".list"} {
		if _, err := os.Stat(filepath.Join(info, list)); err == nil && (several || !strings.Contains(list, ":")) {
			return name, true
		}
	}
	return name, false
}

// listed reports whether a list has one of the paths, and how many bytes were read.
func listed(list string, paths []string) (n int64, found bool) {
	f, err := os.Open(list)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, maxListed), 1<<16)
	for {
		line, err := r.ReadSlice('\n')
		n += int64(len(line))
		line = bytes.TrimSuffix(line, []byte{'\n'})
		for _, p := range paths {
			if p != "" && string(line) == p {
				return n, true
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return n, false
		}
	}
}
