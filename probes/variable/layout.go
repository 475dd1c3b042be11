package variable

import (
	"cmp"
	stdelf "debug/elf"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"endoscope/probes/elf"
)

// layouts caches the locations of variables, by file version and names: many
// processes execute one file, and its debug information may be large. Errors
// are cached too. Each source has its own cache, so that a new query sees debug
// information installed since.
type layouts struct {
	search elf.Search
	known  map[layoutKey]*layout
}

func newLayouts(search elf.Search) *layouts {
	return &layouts{search, map[layoutKey]*layout{}}
}

type layoutKey struct {
	device, inode    uint64
	size             int64
	modified, status unix.Timespec
	names            string
}

// maxLayouts limits the cached layouts.
const maxLayouts = 1 << 10

// layout is the locations of variables in a file.
type layout struct {
	progs []stdelf.ProgHeader
	found []observed // with addresses in the file
	err   error      // why nothing can be observed in the file
	bare  bool       // there is no debug information
}

// layoutOf returns the layout of those names that a file has.
func (ls *layouts) layoutOf(f *os.File, base string, names []string) (*layout, error) {
	key, err := keyOf(f, names)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", base, err)
	}
	l := ls.known[key]
	if l == nil {
		if len(ls.known) >= maxLayouts {
			clear(ls.known)
		}
		l = readLayout(f, base, names, ls.search)
		ls.known[key] = l
	}
	return l, l.err
}

func keyOf(f *os.File, names []string) (layoutKey, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return layoutKey{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim, strings.Join(names, "\x00")}, err
}

func readLayout(f *os.File, base string, names []string, search elf.Search) *layout {
	file, err := stdelf.NewFile(f)
	if err != nil {
		return &layout{err: fmt.Errorf("%s is damaged: %w", base, err)}
	}
	l := &layout{}
	for _, p := range file.Progs {
		l.progs = append(l.progs, p.ProgHeader)
	}
	beside := func(f *os.File) *stdelf.File {
		if f == nil {
			return nil
		}
		e, err := stdelf.NewFile(f)
		if err != nil {
			return nil
		}
		return e
	}
	separate := search.DebugFile(f)
	if separate != nil {
		defer separate.Close()
	}
	shared := search.SharedDebugFile(cmp.Or(separate, f))
	if shared != nil {
		defer shared.Close()
	}
	p := openProgram(file, beside(separate), beside(shared))
	p.units = search.SplitUnits(f, separate)
	l.bare = p.data == nil
	for _, name := range names {
		at, err := p.find(name)
		if errors.Is(err, errNone) {
			continue
		}
		if err != nil {
			l.err = &nameError{name, fmt.Errorf("%s of %s cannot be observed: %w", name, base, err)}
			return l
		}
		l.found = append(l.found, observed{name: name, addr: at.addr, follow: at.follow, form: at.form})
	}
	return l
}
