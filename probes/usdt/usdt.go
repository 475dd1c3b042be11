package usdt

import (
	"bytes"
	"cmp"
	stdelf "debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"endoscope/probes/codesite"
	"endoscope/probes/elf"
)

// Probe is one place of a static probe; several have the same name if the
// compiler duplicated the code that contains it.
type Probe struct {
	Provider, Name string
	Site           codesite.Site
	// Semaphore is the file offset of the counter by which the program knows
	// that the probe is in use, 0 if there is none.
	Semaphore uint64
	Args      []Operand
	// Refused says why it cannot be probed, to be read after its name; nil: it
	// can.
	Refused error
}

// Limits on what is kept of a file.
const (
	maxProbes    = 1 << 16
	maxProbeText = 4096 // of a name, or of all arguments
	sdtNote      = 3    // NT_STAPSDT
	sdtNotes     = ".note.stapsdt"
	sdtBase      = ".stapsdt.base"
	sdtHead      = 3 * 8 // addresses before the texts
)

// Probes lists the static probes of an ELF file, by provider, name and address.
// Damaged notes are skipped. The format is that of
// https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation.
func Probes(f *os.File) (list []Probe, err error) {
	defer elf.RecoverAs(&err)
	im, err := elf.OpenImage(f)
	if err != nil {
		return nil, err
	}
	notes, _, err := im.Section(sdtNotes)
	if err != nil || notes == nil {
		return nil, err
	}
	list = probesIn(im, notes)
	locateOperands(im, list, f)
	slices.SortStableFunc(list, func(a, b Probe) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Site.Addr, b.Site.Addr))
	})
	return list, nil
}

// probesIn returns the probes of a file's notes, in their order.
func probesIn(im *elf.Image, notes []byte) (list []Probe) {
	base := im.ELF.Section(sdtBase)
	elf.EachNote(notes, "stapsdt\x00", sdtNote, func(desc []byte) bool {
		if p, ok := readProbe(im, desc, base); ok {
			list = append(list, p)
		}
		return len(list) < maxProbes
	})
	return list
}

// locateOperands resolves the variables that arguments of probes name.
func locateOperands(im *elf.Image, list []Probe, f *os.File) {
	named := map[string][]uint64{}
	for i := range list {
		for _, o := range list[i].Args {
			if o.Variable != "" {
				named[o.Variable] = nil
			}
		}
	}
	if len(named) == 0 {
		return
	}
	addressesOf(im, named, stdelf.SHT_SYMTAB)
	if im.ELF.SectionByType(stdelf.SHT_SYMTAB) == nil {
		if debug := (elf.Search{}).DebugFile(f); debug != nil {
			defer debug.Close()
			if separate, err := elf.OpenImage(debug); err == nil {
				addressesOf(separate, named, stdelf.SHT_SYMTAB)
			}
		}
	}
	addressesOf(im, named, stdelf.SHT_DYNSYM)
	for i := range list {
		p := &list[i]
		for k := range p.Args {
			o := &p.Args[k]
			if name := o.Variable; name != "" {
				if err := o.locate(named[name], p.Site.Addr); err != nil {
					o.Refused = cmp.Or(o.Refused, fmt.Errorf("it %w", err))
				}
			}
		}
	}
}

// addressesOf adds the addresses of names in a symbol table.
func addressesOf(im *elf.Image, named map[string][]uint64, kind stdelf.SectionType) {
	sec := im.ELF.SectionByType(kind)
	if sec == nil || int(sec.Link) >= len(im.ELF.Sections) {
		return
	}
	data, err := im.ReadSection(sec)
	if err != nil {
		return
	}
	text, err := im.ReadSection(im.ELF.Sections[sec.Link])
	if err != nil {
		return
	}
	names := string(text)
	for ; len(data) >= stdelf.Sym64Size; data = data[stdelf.Sym64Size:] {
		name := elf.WithoutVersion(elf.StringAt(names, binary.LittleEndian.Uint32(data)))
		known, wanted := named[name]
		addr := binary.LittleEndian.Uint64(data[8:])
		if !wanted || stdelf.SectionIndex(binary.LittleEndian.Uint16(data[6:])) == stdelf.SHN_UNDEF || stdelf.ST_TYPE(data[4]) == stdelf.STT_TLS || slices.Contains(known, addr) || len(known) == maxVariables {
			continue
		}
		named[name] = append(known, addr)
	}
}

// maxVariables limits the variables with one name.
const maxVariables = 64

// readProbe reads a note. Prelink moves the section .stapsdt.base with the
// code, which gives the offset to add to addresses.
func readProbe(im *elf.Image, desc []byte, base *stdelf.Section) (p Probe, ok bool) {
	if len(desc) < sdtHead {
		return Probe{}, false
	}
	le := binary.LittleEndian
	addr, linked, semaphore := le.Uint64(desc), le.Uint64(desc[8:]), le.Uint64(desc[16:])
	if base != nil && linked != 0 {
		addr += base.Addr - linked
		if semaphore != 0 {
			semaphore += base.Addr - linked
		}
	}
	var texts [3]string
	rest := desc[sdtHead:]
	for i := range texts {
		end := bytes.IndexByte(rest, 0)
		if end < 0 || end > maxProbeText {
			return Probe{}, false
		}
		texts[i], rest = string(rest[:end]), rest[end+1:]
	}
	if texts[0] == "" || texts[1] == "" {
		return Probe{}, false
	}
	p.Provider, p.Name, p.Args = texts[0], texts[1], parseOperands(texts[2])
	if p.Site, p.Refused = markedAt(im, addr); p.Refused == nil && semaphore != 0 {
		p.Semaphore, p.Refused = semaphoreAt(im, semaphore)
	}
	return p, true
}

// markedAt returns the site of the instruction at addr. The error says why it
// cannot be probed.
func markedAt(im *elf.Image, addr uint64) (codesite.Site, error) {
	s, err := codesite.At(im, addr)
	if err == nil && s.Method == codesite.Nop {
		err = fmt.Errorf("is at `%s`, in whose place Linux 6.18 puts a call, which pushes onto a stack that may be in use", s.Insn())
	}
	return s, err
}

// semaphoreAt returns the file offset of a counter, which the kernel finds in a
// writable mapping of the file.
func semaphoreAt(im *elf.Image, addr uint64) (uint64, error) {
	for i := range im.Load {
		if s := &im.Load[i]; s.Writable && s.Contains(addr) {
			return addr - s.Start + s.Offset, nil
		}
	}
	return 0, fmt.Errorf("has a semaphore that lies in no writable part of the file")
}

// String returns the probe's name in queries.
func (p Probe) String() string { return "usdt:" + p.Provider + ":" + p.Name }

// Signature lists the arguments with their sizes in bits: "arg0 int32, arg1
// uint64".
func (p Probe) Signature() string {
	var args []string
	for i, a := range p.Args {
		kind := "uint"
		if a.Signed {
			kind = "int"
		}
		args = append(args, fmt.Sprintf("arg%d %s%d", i, kind, 8*a.Size))
	}
	return strings.Join(args, ", ")
}
