package codesite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
)

// body is all code that runs as part of one function: its own and that of the
// fragments (cold paths) that it branches to. It is decoded from its start, so
// that every instruction is known, reachable or not.
type body struct {
	spans   []elf.Span
	nodes   []node              // by address
	sources map[uint64][]uint64 // by target: addresses of the body's branches there
	labels  map[uint64]bool     // possible targets of computed jumps
}

// node is an instruction of a body.
type node struct {
	instruction
	addr  uint64
	bytes []byte
}

func (n *node) end() uint64 { return n.addr + uint64(n.Len) }

// falls reports whether execution may continue after the instruction.
func (n *node) falls() bool {
	switch n.Op {
	case x86asm.JMP, x86asm.RET, x86asm.UD0, x86asm.UD1, x86asm.UD2, x86asm.HLT, x86asm.LJMP, x86asm.LRET,
		x86asm.IRET, x86asm.IRETD, x86asm.IRETQ:
		return false
	}
	return true
}

const (
	maxBodyBytes = 1 << 20 // of the code of a body
	maxBodySpans = 64
	maxBodyWays  = 4096 // entrances into a body, besides its entry
)

// body decodes function i. It fails where code is shared with other functions
// or cannot be followed; the error is to be read after the function's name.
func (c Code) body(i int) (*body, error) {
	f := &c.Entries()[i]
	b := &body{sources: map[uint64][]uint64{}, labels: map[uint64]bool{}}
	total := uint64(0)
	var pieces [][]node
	for todo := []elf.Span{{Start: f.Addr, End: f.Addr + c.Extent(i)}}; len(todo) > 0; todo = todo[1:] {
		s := todo[0]
		if b.contains(s.Start) {
			continue
		}
		if total += s.End - s.Start; total > maxBodyBytes {
			return nil, fmt.Errorf("is larger than %d KiB", maxBodyBytes>>10)
		}
		if len(b.spans) == maxBodySpans {
			return nil, fmt.Errorf("has more than %d pieces", maxBodySpans)
		}
		code, err := c.Image().Code(s.Start, s.End-s.Start)
		if err != nil {
			return nil, err
		}
		if len(code) == 0 {
			return nil, errors.New("has no code")
		}
		b.spans = append(b.spans, s)
		nodes := make([]node, 0, len(code)/4+1)
		for pos := 0; pos < len(code); {
			in, err := decode(code[pos:])
			if err != nil {
				return nil, fmt.Errorf("has code at +%d that cannot be decoded", s.Start+uint64(pos)-f.Addr)
			}
			nodes = append(nodes, node{in, s.Start + uint64(pos), code[pos : pos+in.Len]})
			pos += in.Len
		}
		pieces = append(pieces, nodes)
		for k := range nodes {
			n := &nodes[k]
			target, direct := n.target(n.addr)
			if !direct || !n.jumps() {
				continue
			}
			b.sources[target] = append(b.sources[target], n.addr)
			if fragment, ok := c.fragmentAt(target); ok {
				todo = append(todo, fragment)
			}
		}
	}
	slices.SortFunc(pieces, func(a, b []node) int { return cmp.Compare(a[0].addr, b[0].addr) })
	b.nodes = pieces[0]
	if len(pieces) > 1 {
		b.nodes = slices.Concat(pieces...)
	}
	return b, c.checkBody(f, b)
}

// fragmentAt returns the piece of code at addr that belongs to no function.
func (c Code) fragmentAt(addr uint64) (elf.Span, bool) {
	if c.functionAt(addr) >= 0 || c.Image().IsStub(addr) {
		return elf.Span{}, false
	}
	e := c.UnwindTable().Find(addr)
	if e == nil || c.Image().SegmentOf(e.Start) == nil {
		return elf.Span{}, false
	}
	return elf.Span{Start: e.Start, End: e.End}, true
}

var errEntered = errors.New("has code that is entered from elsewhere")

// checkBody returns an error if other functions run the body, or if it runs
// into another's code.
func (c Code) checkBody(f *elf.Entry, b *body) error {
	for _, s := range b.spans {
		ways := c.entrancesInto(s)
		if len(ways) > maxBodyWays {
			return errEntered
		}
		for _, way := range ways {
			if way.target == f.Addr { // a tail call out of another function's fragment
				continue
			}
			if way.source != 0 && (b.contains(way.source) && !c.takesAddress(way.source) || !c.isInstruction(way.source)) {
				continue
			}
			if way.source == 0 || c.takesAddress(way.source) {
				b.labels[way.target] = true
				continue
			}
			return errEntered
		}
		if len(c.shortBranchesInto(elf.Span{Start: s.Start + 1, End: s.End}, s)) > 0 {
			return errEntered
		}
		last := b.at(s.End - 1)
		if last != nil && last.falls() && last.Op != x86asm.CALL && last.Op != x86asm.NOP && last.Op != x86asm.INT {
			return errors.New("runs into the code after it")
		}
	}
	for k := range b.nodes {
		n := &b.nodes[k]
		if target, direct := n.target(n.addr); direct && n.Op == x86asm.CALL && target != f.Addr && b.contains(target) {
			return errors.New("calls a part of itself")
		}
	}
	return nil
}

// takesAddress reports whether the instruction at addr is no branch or call.
func (c Code) takesAddress(addr uint64) bool {
	code, err := c.Image().Code(addr, 16)
	if err != nil {
		return false
	}
	in, err := decode(code)
	return err == nil && !in.transfers()
}

func (b *body) contains(addr uint64) bool {
	return slices.ContainsFunc(b.spans, func(s elf.Span) bool { return s.Contains(addr) })
}

// index returns the position in nodes of the instruction that begins at addr; false: none does,
// and the position is that of the next.
func (b *body) index(addr uint64) (int, bool) {
	return slices.BinarySearchFunc(b.nodes, addr, func(n node, addr uint64) int { return cmp.Compare(n.addr, addr) })
}

// at returns the instruction that covers addr, or nil.
func (b *body) at(addr uint64) *node {
	k, found := b.index(addr)
	if !found {
		k--
	}
	if k < 0 || addr >= b.nodes[k].end() {
		return nil
	}
	return &b.nodes[k]
}

// before returns the instruction that ends where n begins, in the same span.
func (b *body) before(n *node) *node {
	for _, s := range b.spans {
		if s.Contains(n.addr) && n.addr > s.Start {
			return b.at(n.addr - 1)
		}
	}
	return nil
}
