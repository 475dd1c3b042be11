package resolve

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/procfs"

	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// text compares a process's code with the file it was mapped from. Detaching a probe
// restores the file's bytes: in code that patched itself, the probed instruction would
// run, or be left behind, in a state that the program does not expect.
type text struct {
	memory *os.File   // /proc/PID/mem
	code   pageReader // of memory
	file   pageReader
	name   string
	parts  []*procfs.ProcMap // executable mappings of the file
	placed []uint64          // file offsets of probes within functions
	got    []byte
	want   []byte
}

func openText(pl selection.Place, file *os.File) (*text, error) {
	proc, err := procfs.NewProc(pl.Process.PID)
	if err != nil {
		return nil, err
	}
	maps, err := proc.ProcMaps()
	if err != nil {
		return nil, err
	}
	t := &text{file: pageReader{r: file}, name: filepath.Base(pl.Mapping.Path)}
	for _, m := range maps {
		if m.Perms.Execute && m.Dev == pl.Mapping.Dev && m.Inode == pl.Mapping.Inode {
			t.parts = append(t.parts, m)
		}
	}
	if t.memory, err = os.Open(fmt.Sprintf("/proc/%d/mem", pl.Process.PID)); err != nil {
		return nil, err
	}
	t.code.r = t.memory
	return t, nil
}

func (t *text) close() { t.memory.Close() }

// changed returns why function i of sym cannot be probed as w specifies in one of the
// processes whose texts are passed; "" if it can.
func changed(texts []*text, sym *elf.Module, i int, w calls.Function) string {
	if len(texts) == 0 {
		return ""
	}
	_, begin := sym.Entry(i)
	sites := append([]codesite.Site{w.Site}, w.Exits...)
	probed := offsetsOf(begin, sites)
	// A function with exits is compared up to the last of them, because a jump placed
	// anywhere may make it leave unseen; of a cold path only the site is compared.
	end := begin
	ranges := [][2]uint64{{}}
	for _, s := range sites {
		after := s.Offset + uint64(len(s.Bytes))
		if begin <= s.Offset && s.Offset-begin < maxCompared {
			end = max(end, after)
		} else {
			ranges = append(ranges, [2]uint64{s.Offset, after})
		}
	}
	ranges[0] = [2]uint64{begin, end}
	for _, t := range texts {
		for _, r := range ranges {
			reason := t.check(r[0], r[1], probed)
			if reason == differs {
				reason = t.check(r[0], r[1], append(probed, otherSites(sym, i)...))
			}
			if reason != "" {
				return reason
			}
		}
	}
	return ""
}

// maxCompared bounds the bytes of a function that are compared.
const maxCompared = 1 << 20

const differs = "the process has changed its code"

func offsetsOf(entry uint64, sites []codesite.Site) []uint64 {
	out := []uint64{entry}
	for _, s := range sites {
		out = append(out, s.Offset)
	}
	return out
}

// otherSites returns the sites at which queries with other needs probe function i. The
// code looks changed there although the program did not change it.
func otherSites(sym *elf.Module, i int) (out []uint64) {
	out = codesite.In(sym).PossibleEntrySites(i)
	for _, need := range []codesite.Need{{}, {Value: true}} {
		exits, _ := codesite.In(sym).ExitSitesFor(i, need)
		for _, s := range exits {
			out = append(out, s.Offset)
		}
	}
	return out
}

// check returns why the code at file offsets [begin, end) cannot be probed; "" if it
// can. probed are file offsets at which there may already be probes.
func (t *text) check(begin, end uint64, probed []uint64) string {
	mapped := false
	for _, m := range t.parts {
		first, size := uint64(m.Offset), uint64(m.EndAddr-m.StartAddr)
		if begin < first || end > first+size {
			continue
		}
		mapped = true
		// Attaching would succeed, and the probe never fire (valid_vma in
		// kernel/events/uprobes.c).
		if m.Perms.Write {
			return "the process has made its code writable, where the kernel sets no probes"
		}
		if reason := t.compare(uint64(m.StartAddr)+(begin-first), begin, int(end-begin), probed); reason != "" {
			return reason
		}
	}
	if !mapped {
		return "it is not in the part of " + t.name + " that the process has mapped"
	}
	return ""
}

// compare is check for one mapping, in which the code is at addr.
func (t *text) compare(addr, begin uint64, size int, probed []uint64) string {
	if cap(t.got) < size {
		t.got, t.want = make([]byte, size), make([]byte, size)
	}
	got, want := t.got[:size], t.want[:size]
	if err := t.file.read(want, int64(begin)); err != nil {
		return "its code cannot be read from the file"
	}
	if err := t.code.read(got, int64(addr)); err != nil {
		return "its code cannot be read from the process"
	}
	for _, at := range slices.Concat(probed, t.placed) {
		if begin <= at && at < begin+uint64(size) {
			codesite.Unprobe(got, want, int(at-begin))
		}
	}
	codesite.UnprobeNops(got, want)
	if !bytes.Equal(got, want) {
		return differs
	}
	return ""
}

// pageReader reads a file or a process's memory by whole pages and keeps the pages
// read last: the functions of a query lie close together, often several in one page.
// It reads only requested pages.
type pageReader struct {
	r    io.ReaderAt
	at   int64 // offset of kept
	kept []byte
}

// read fills b with the contents at offset.
func (p *pageReader) read(b []byte, offset int64) error {
	end := offset + int64(len(b))
	if offset < p.at || end > p.at+int64(len(p.kept)) {
		first := offset &^ (PageSize - 1)
		size := int((end+PageSize-1)&^(PageSize-1) - first)
		if cap(p.kept) < size {
			p.kept = make([]byte, size)
		}
		n, err := p.r.ReadAt(p.kept[:size], first)
		p.at, p.kept = first, p.kept[:n]
		if end > first+int64(n) { // a file may end within its last page
			return err
		}
	}
	copy(b, p.kept[offset-p.at:])
	return nil
}
