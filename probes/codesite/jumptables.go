package codesite

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/unwind"
)

var errComputed = errors.New("jumps to computed addresses that may be another function's")

// followJumps separates the computed jumps that leave the function from those
// that do not (switch statements). A jump that leaves has closed the frame, and
// does not load its target from an indexed table.
func (x *exitFinder) followJumps() error {
	x.tails = map[uint64]bool{}
	x.moves = x.movesStack()
	followed := false
	for k := range x.body.nodes {
		n := &x.body.nodes[k]
		if _, direct := n.target(0); direct || n.Op != x86asm.JMP {
			continue
		}
		depth, known := x.depth(n.addr)
		if !known && !x.moves {
			depth, known = 0, true
		}
		indexed, understood := x.indexes(k)
		if !known && x.framed(n.addr) {
			depth, known = 8, true // at least
		}
		switch {
		case !known:
			return errComputed
		case depth != 0 || understood && indexed:
			if followed {
				continue
			}
			if err := x.followTables(); err != nil {
				return err
			}
			followed = true
		case !understood || len(x.body.labels) > 0:
			return errComputed
		default:
			x.tails[n.addr] = true
		}
	}
	return nil
}

// framed reports whether by the tables the frame pointer is still the
// function's own at pc: then the function is not left there.
func (x *exitFinder) framed(pc uint64) bool {
	e := x.m.UnwindTable().Find(pc)
	if e == nil || x.f.Go {
		return false
	}
	row, ok := e.Row(pc)
	return ok && row.CFAKnown && row.CFAReg == unwind.RegBP
}

// indexes reports whether the computed jump at node k loads its target from a
// table; understood is false if the origin of its target is not found.
func (x *exitFinder) indexes(k int) (indexed, understood bool) {
	const far = 12
	switch arg := x.body.nodes[k].Args[0].(type) {
	case x86asm.Mem:
		return arg.Index != 0, true
	case x86asm.Reg:
		want, _ := generalRegister(arg)
		for j := k - 1; j >= 0 && j >= k-far; j-- {
			n := &x.body.nodes[j]
			if n.end() != x.body.nodes[j+1].addr || n.transfers() && !n.conditional() || len(x.body.sources[x.body.nodes[j+1].addr]) > 0 {
				return false, false
			}
			e := n.effect()
			if n.conditional() || e.known && e.regs&(1<<want) == 0 {
				continue
			}
			if to, ok := generalRegister(n.Args[0]); !ok || to != want {
				return false, false
			}
			switch from := n.Args[1].(type) {
			case x86asm.Mem:
				return from.Index != 0, n.Op == x86asm.MOV || n.Op == x86asm.MOVSXD
			case x86asm.Reg:
				if n.Op == x86asm.ADD {
					return true, true
				}
				if n.Op == x86asm.MOV && from >= x86asm.RAX && from <= x86asm.R15 {
					// From here back the target is in another register.
					want, _ = generalRegister(from)
					continue
				}
			}
			return false, false
		}
		// A function passed as an argument, in a function of a few
		// instructions.
		return false, k < far && x.body.nodes[0].addr == x.f.Addr
	}
	return false, false
}

// tables returns the addresses in operands that may be those of jump tables.
func (b *body) tables() map[uint64]bool {
	tables := map[uint64]bool{}
	for k := range b.nodes {
		n := &b.nodes[k]
		for _, arg := range n.Args {
			switch arg := arg.(type) {
			case x86asm.Mem:
				if arg.Base == x86asm.RIP {
					tables[n.end()+uint64(arg.Disp)] = true
				} else if arg.Disp > 0 && arg.Index != 0 {
					tables[uint64(arg.Disp)] = true
				}
			case x86asm.Imm:
				if arg > 0 && n.Op == x86asm.MOV {
					tables[uint64(arg)] = true
				}
			}
		}
	}
	return tables
}

// followTables makes the targets of all jump tables labels. Every word from a
// table's start counts as long as it leads into the body.
func (x *exitFinder) followTables() error {
	tables := x.body.tables()
	if len(tables) > maxTables {
		return fmt.Errorf("has more than %d tables that it may jump by", maxTables)
	}
	found := false
	for table := range tables {
		data := x.m.Image().Data(table, maxTableEntries*8)
		if x.m.Image().SegmentOf(table) != nil && x.body.contains(table) {
			continue
		}
		narrow := x.labelsOf(data, 4, func(b []byte) uint64 { return table + uint64(int32(binary.LittleEndian.Uint32(b))) })
		wide := x.labelsOf(data, 8, binary.LittleEndian.Uint64)
		found = found || narrow || wide
	}
	if x.cold || !found && len(x.body.labels) == 0 {
		return errComputed
	}
	return nil
}

// labelsOf marks the targets at the start of data.
func (x *exitFinder) labelsOf(data []byte, width int, target func([]byte) uint64) (found bool) {
	whole := len(data)
	for ; len(data) >= width; data = data[width:] {
		at := target(data)
		n := x.body.at(at)
		if n == nil || n.addr != at {
			if fragment, ok := x.m.fragmentAt(at); ok && whole > len(data) && !x.body.contains(fragment.Start) {
				x.cold = true
			}
			return found
		}
		found = true
		x.body.labels[at] = true
	}
	x.loose = x.loose || whole > 0 // longer than the part that is read
	return found
}
