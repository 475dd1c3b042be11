package codesite

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
	"endoscope/probes/unwind"
)

// ExitSites is ExitSitesFor a program that reads the return value.
func (m Code) ExitSites(i int) ([]Site, error) { return m.ExitSitesFor(i, Need{Value: true}) }

// ExitSitesFor returns where the returns of function i can be seen without a
// return trap: each return passes exactly one of them. They are its RETs and
// its jumps to other functions (tail calls, where there is no return value
// yet). In place of a RET, which is stepped, it uses emulated instructions that
// lead only there, and after which nothing is called. (The branch to
// __stack_chk_fail is allowed: the process dies there.)
//
// No sites and no error mean that the function never returns. Unwinding
// (exceptions, panics, longjmp) passes no site. The error, to be read after the
// function's name, says in the user's words why returns cannot be seen exactly.
func (m Code) ExitSitesFor(i int, need Need) ([]Site, error) {
	if i < 0 || i >= m.Len() {
		return nil, fmt.Errorf("no function %d in %s", i, m.Name())
	}
	f := &m.Entries()[i]
	if err := m.refuse(i, "probe"); err != nil {
		return nil, err
	}
	b, err := m.body(i)
	if err != nil {
		return nil, err
	}
	x := exitFinder{m: m, f: f, i: i, body: b, need: need}
	if depth, known := x.depth(f.Addr); known && depth != 0 || x.framed(f.Addr) {
		return nil, errors.New("is a fragment of a function: its return address is not on top of the stack where it begins")
	}
	if err := x.followJumps(); err != nil {
		return nil, err
	}
	for k := range b.nodes {
		if err := x.add(&b.nodes[k]); err != nil {
			return nil, err
		}
	}
	return x.sites, nil
}

// exitFinder collects the exit sites of a function.
type exitFinder struct {
	m     Code
	f     *elf.Entry
	i     int
	body  *body
	need  Need
	tails map[uint64]bool // computed jumps that are tail calls
	moves bool            // some instruction moves the stack pointer
	loose bool            // the targets of computed jumps are not all known
	cold  bool            // a table leads to a cold path that nothing else leads to
	sites []Site
}

// add adds the sites of an instruction if it leaves the function.
func (x *exitFinder) add(n *node) error {
	target, direct := n.target(n.addr)
	switch {
	case n.Op == x86asm.RET:
		if depth, known := x.depth(n.addr); known && depth != 0 {
			return fmt.Errorf("returns at +%d with something else than its return address on the stack", n.addr-x.f.Addr)
		}
		if x.need.Prices.For(Emulated) < x.need.Prices.For(Stepped) {
			if sites, ok := x.cover(n, 0, true, 0); ok {
				x.sites = append(x.sites, sites...)
				return nil
			}
		}
		return x.site(n, 0, true)
	case n.Op == x86asm.LRET, n.Op == x86asm.LJMP, n.Op == x86asm.IRET, n.Op == x86asm.IRETD, n.Op == x86asm.IRETQ:
		return errors.New("leaves by a far jump or return")
	case n.Op == x86asm.JMP && x.tails[n.addr]:
		return x.tail(n)
	case !direct || !n.jumps():
		return nil
	case target == x.f.Addr:
		return x.again(n)
	case x.body.contains(target):
		if x.body.at(target).addr != target {
			return errors.New("jumps into the middle of an instruction")
		}
		return nil
	case n.conditional():
		return errors.New("leaves by a conditional jump")
	case x.m.isEntry(target), x.m.Image().IsStub(target):
		return x.tail(n)
	}
	return errors.New("jumps into the middle of other code")
}

// again handles a branch to the function's own entry: a tail call of the
// function to itself, unless Go has grown the stack.
func (x *exitFinder) again(n *node) error {
	code, err := x.m.Image().Code(x.f.Addr, x.m.Extent(x.i))
	switch {
	case err != nil:
		return err
	case x.f.Go:
		if x.m.stackCheck(code, x.f.Addr) == 0 {
			return errLoop
		}
		return nil
	case !opensFrame(code):
		return errLoop
	case n.conditional():
		return errors.New("calls itself by a conditional jump")
	}
	return x.tail(n)
}

// tail adds a tail call, at which the frame must be closed.
func (x *exitFinder) tail(n *node) error {
	depth, known := x.depth(n.addr)
	if !known && !x.moves {
		depth, known = 0, true
	}
	if !known || depth != 0 {
		return fmt.Errorf("jumps elsewhere at +%d, and its stack frame there is not known", n.addr-x.f.Addr)
	}
	return x.site(n, 0, false)
}

// movesStack reports whether any instruction moves the stack pointer.
func (x *exitFinder) movesStack() bool {
	for k := range x.body.nodes {
		n := &x.body.nodes[k]
		if e := n.effect(); n.Op != x86asm.CALL && (!e.spKnown || e.sp != 0) {
			return true
		}
	}
	return false
}

// depth returns the distance from the stack pointer up to the return address at
// pc, by the compiler's tables.
func (x *exitFinder) depth(pc uint64) (depth int64, known bool) {
	if x.f.Go {
		return x.m.GoDepth(x.f.Addr, pc)
	}
	e := x.m.UnwindTable().Find(pc)
	if e == nil {
		return 0, false
	}
	row, ok := e.Row(pc)
	if !ok || !row.CFAKnown || !row.RAKnown || row.CFAReg != unwind.RegSP {
		return 0, false
	}
	return row.CFAOffset + row.RA, true
}

// site adds an instruction as a site.
func (x *exitFinder) site(n *node, offset int64, ready bool) error {
	site, err := x.siteAt(n, offset, ready)
	if err == nil {
		x.sites = append(x.sites, site)
	}
	return err
}

func (x *exitFinder) siteAt(n *node, offset int64, ready bool) (Site, error) {
	how, err := method(n.bytes, n.Len)
	if err != nil {
		return Site{}, fmt.Errorf("leaves by `%s`, which %w", n.syntax(n.addr), err)
	}
	s := x.m.Image().SegmentOf(n.addr)
	return Site{
		Offset:      n.addr - s.Start + s.Offset,
		Addr:        n.addr,
		Method:      how,
		PastEntry:   n.addr != x.f.Addr,
		Bytes:       bytes.Clone(n.bytes),
		SPOffset:    offset,
		RetvalReady: ready,
	}, nil
}

const (
	maxCoverDepth = 48 // instructions between a site and its RET
	maxCoverSites = 4  // instead of a RET
)

// cover finds emulated instructions of which every path to n passes exactly
// one, and that lead to n only. offset is the site's SPOffset at n; ready says
// that rax is not written from n on.
func (x *exitFinder) cover(n *node, offset int64, ready bool, steps int) (sites []Site, ok bool) {
	if steps > maxCoverDepth || n.addr == x.f.Addr || x.loose || x.body.labels[n.addr] {
		return nil, false
	}
	var from []*node
	if p := x.body.before(n); p != nil && p.falls() {
		from = append(from, p)
	}
	for _, source := range x.body.sources[n.addr] {
		from = append(from, x.body.at(source))
	}
	if len(from) == 0 { // code that is entered in an unknown way
		return nil, false
	}
	for _, p := range from {
		e := p.effect()
		switch {
		case p.Op == x86asm.CALL || p.Op == x86asm.SYSCALL || p.Op == x86asm.INT || p.Op == x86asm.XBEGIN:
			return nil, false
		case p.conditional():
			if !x.onlyLeadsTo(p, n.addr) {
				return nil, false
			}
			e = effect{known: true, spKnown: true}
		case p.Op == x86asm.JMP:
			e = effect{known: true, spKnown: true}
		case p.transfers() || !e.spKnown:
			return nil, false
		}
		before, unwritten := offset+e.sp, ready && e.known && e.regs&(1<<regRAX) == 0
		if x.need.Results && (!e.known || e.store || e.regs&x.results() != 0) || x.need.Value && !unwritten {
			return nil, false
		}
		how, err := method(p.bytes, p.Len)
		if depth, known := x.depth(p.addr); known && depth != before {
			return nil, false
		}
		if err == nil && how == Emulated && p.Op != x86asm.PUSH {
			site, err := x.siteAt(p, before, unwritten)
			if err != nil {
				return nil, false
			}
			sites = append(sites, site)
		} else {
			more, ok := x.cover(p, before, unwritten, steps+1)
			if !ok {
				return nil, false
			}
			sites = append(sites, more...)
		}
		if len(sites) > maxCoverSites {
			return nil, false
		}
	}
	return sites, true
}

// results returns the registers in which the function's language returns
// values.
func (x *exitFinder) results() registers {
	if x.f.Go {
		return argumentsGo
	}
	return 1<<regRAX | 1<<regRDX
}

// onlyLeadsTo reports whether a conditional branch leads to addr on one side,
// and on the other to addr, too, or to the end of the process.
func (x *exitFinder) onlyLeadsTo(p *node, addr uint64) bool {
	target, _ := p.target(p.addr)
	return (target == addr || x.dies(target)) && (p.end() == addr || x.dies(p.end()))
}

// dies reports whether the code at addr ends the process because of a broken
// stack or an impossible state.
func (x *exitFinder) dies(addr uint64) bool {
	for range 6 {
		n := x.body.at(addr)
		if n == nil || n.addr != addr {
			return false
		}
		target, direct := n.target(n.addr)
		switch {
		case n.Op == x86asm.UD2:
			return true
		case n.Op == x86asm.CALL:
			return x.m.isStackFailure(n, target, direct)
		case n.Op == x86asm.JMP && direct:
			addr = target
			continue
		case n.transfers():
			return false
		}
		addr = n.end()
	}
	return false
}
