package uprobe

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// executable is the file that a path of the target led to when its functions were
// looked up. Probes are in files: what takes its place has none, and what is written
// into it may have them where they do not belong.
type executable struct {
	path    string
	dev     uint64
	inode   uint64 // 0: there was none
	size    int64
	written int64 // when, ns since the epoch
}

func executableAt(path string) executable {
	x := executable{path: path}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		x.dev, x.inode, x.size, x.written = st.Dev, st.Ino, st.Size, st.Mtim.Nano()
	}
	return x
}

func executablesAt(paths []string) (list []executable) {
	for _, path := range paths {
		list = append(list, executableAt(path))
	}
	return list
}

// tellReplaced tells the sink of executables that are not any more what they were:
// whoever has executed them since was not observed, or not as was meant. Where a path
// leads nowhere, nobody executes it. Provider.mu is held.
func (p *Provider) tellReplaced(s *source) {
	for _, x := range s.executables {
		now := executableAt(x.path)
		if now.inode == 0 || now == x {
			continue
		}
		said := fmt.Sprintf("calls of processes that have executed %s since it was replaced", x.path)
		if now.dev == x.dev && now.inode == x.inode {
			said = fmt.Sprintf("calls of processes that have executed %s since it was written to", x.path)
		}
		p.reader.do(func() { s.sub.sink.Lost(said, 1) })
	}
}
