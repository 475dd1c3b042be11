package calibrate

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// version identifies what is measured, and how: tables of another version are
// not used.
const version = 2

// maxCacheFile limits what is read of a file that any process may have written.
const maxCacheFile = 1 << 16

// Cache keeps tables in files, one for each machine that shares the directory.
// A problem with it is never an error: missing tables are measured.
type Cache struct {
	dir     string // "": no cache
	machine string
}

// UserCache returns the cache in the user's directory (os.UserCacheDir), for
// this machine with this kernel. It survives a reboot.
func UserCache() Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}
	}
	return NewCache(filepath.Join(dir, "endoscope"))
}

// NewCache returns a cache in a directory, which need not exist.
func NewCache(dir string) Cache { return Cache{dir: dir, machine: machine()} }

// stored is the content of a file.
type stored struct {
	Version int
	Machine string
	Prices  Table
}

// Table returns the cached prices of these kinds, or else the result of
// measure, which is then cached unless the measurement was disturbed. The error is that of measure.
func (c Cache) Table(kinds []string, measure func() (Table, error)) (Table, error) {
	if t, ok := c.read(kinds); ok {
		return t, nil
	}
	t, err := measure()
	if err != nil {
		return nil, err
	}
	// If it is not kept, the next process measures again.
	if !t.disturbed() {
		_ = c.write(t)
	}
	return t, nil
}

// notInNames are bytes of a kernel's name that are replaced in a file's name.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9.+_-]`)

// Path returns the file of this machine, "" without a cache.
func (c Cache) Path() string {
	if c.dir == "" {
		return ""
	}
	release, _, _ := strings.Cut(c.machine, "\n")
	sum := sha256.Sum256([]byte(c.machine))
	return filepath.Join(c.dir, fmt.Sprintf("probe-prices-%s-%x.json", notInNames.ReplaceAllString(release, "_"), sum[:6]))
}

func (c Cache) read(kinds []string) (Table, bool) {
	if c.dir == "" {
		return nil, false
	}
	// O_NONBLOCK: a pipe or device in its place must not block.
	fd, err := unix.Open(c.Path(), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), c.Path())
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxCacheFile))
	if err != nil {
		return nil, false
	}
	var s stored
	if json.Unmarshal(b, &s) != nil || s.Version != version || s.Machine != c.machine || !s.Prices.complete(kinds) {
		return nil, false
	}
	return s.Prices, true
}

// write replaces the file atomically: concurrent readers see the old or the new
// content, and the last of several writers wins.
func (c Cache) write(t Table) error {
	if c.dir == "" {
		return nil
	}
	b, err := json.MarshalIndent(stored{version, c.machine, t}, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.dir, "probe-prices-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.Path())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// machine returns a string that identifies machines with equal prices: kernel,
// processor, and whether that is virtual. The kernel's release is the first
// line.
func machine() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	lines := []string{unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(line, ":")
		switch key, value = strings.TrimSpace(key), strings.TrimSpace(value); key {
		case "model name":
			lines = append(lines, value)
		case "flags":
			for _, flag := range strings.Fields(value) {
				if flag == "hypervisor" {
					lines = append(lines, flag)
				}
			}
		case "": // the first processor represents all
			return strings.Join(lines, "\n")
		}
	}
	return strings.Join(lines, "\n")
}
