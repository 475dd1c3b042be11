package codesite

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"endoscope/probes/elf"
)

// candidate is an instruction of a function's first block. As far as the block
// shows, it is executed once per call, with what is needed as at the entry.
type candidate struct {
	pos     int // bytes after the entry
	len     int
	method  string
	refused error // why it cannot be probed
	depth   int64 // bytes that the stack pointer has moved down from the entry
}

// maxCandidates limits the instructions of the block that are examined.
const maxCandidates = 24

// candidates lists the candidates of code from byte pos on, in order. The list
// ends with the block, with the first instruction that changes what is needed
// (whose own site is still before the change), and where the code cannot be
// decoded; also with the first that has the lowest price, since later ones are
// no cheaper, and anything that enters the code before it enters before those,
// too. stored: data may lie below the stack pointer at the entry already.
func candidates(code []byte, pos int, need Need, arguments registers, stored bool) (list []candidate) {
	depth := int64(0)
	least := need.Prices.least(code[min(pos, len(code)):])
	if n := pushLength(code[min(pos, len(code)):]); n > 0 && need.Prices.For(Emulated) <= least {
		return []candidate{{pos: pos, len: n, method: Emulated}}
	}
	list = make([]candidate, 0, 4)
	for len(list) < maxCandidates && pos < len(code) {
		in, err := decode(code[pos:])
		if err != nil {
			return list
		}
		c := candidate{pos: pos, len: in.Len, depth: depth}
		c.method, c.refused = method(code[pos:], in.Len)
		// Linux 6.18 replaces the nop by a call, which pushes: data that a leaf
		// function has stored below the stack pointer would be overwritten.
		if c.method != Nop || !stored {
			list = append(list, c)
			if c.refused == nil && need.Prices.For(c.method) <= least {
				return list
			}
		}
		if in.transfers() {
			return list
		}
		e := in.effect()
		switch {
		case !e.spKnown,
			need.Return && e.sp != 0,
			need.Args && (!e.known || e.store && need.Only == 0 || e.regs&arguments != 0):
			return list
		}
		depth -= e.sp
		stored = stored || e.store || !e.known
		pos += in.Len
	}
	return list
}

// EntrySite is EntrySiteFor a program that may read arguments and arm a return
// trap: the state at the site is that at the function's entry.
func (m Code) EntrySite(i int) (Site, error) {
	return m.EntrySiteFor(i, Need{Args: true, Return: true})
}

// EntrySiteFor returns where each call of function i is to be probed: the
// cheapest instruction of its first block that is executed once per call, and
// before which nothing needed changes. The error, to be read after the
// function's name, says in the user's words why there is no such place: an
// unrecognised prefix would make the kernel refuse the whole attachment, or
// accept a probe that never fires.
//
// A function without a frame may have a loop that begins at its first
// instruction; it is refused. Where the first block opens a frame, a jump back
// to it must have closed the frame before: it is a tail call of the function to
// itself, and counted.
func (m Code) EntrySiteFor(i int, need Need) (Site, error) {
	if i < 0 || i >= m.Len() {
		return Site{}, fmt.Errorf("no function %d in %s", i, m.Name())
	}
	f := &m.Entries()[i]
	if err := m.refuse(i, "probe"); err != nil {
		return Site{}, m.withVariants(i, err)
	}
	code, err := m.Image().Code(f.Addr, m.Extent(i))
	if err != nil {
		return Site{}, err
	}
	first := 0
	if f.Go {
		first = m.stackCheck(code, f.Addr)
	}
	if need.Entry && first > 0 {
		return Site{}, errors.New("executes its first instruction again when its stack has grown")
	}
	list := candidates(code, first, need, need.arguments(f.Go), !m.isCalled(f.Addr))
	if len(list) == 0 {
		if first > 0 {
			return Site{}, errors.New("has code after its stack check that cannot be decoded")
		}
		return Site{}, errors.New("begins with an instruction that cannot be decoded, or is shorter than its first instruction")
	}
	if first == 0 && m.isLooped(i, code) {
		return Site{}, errLoop
	}
	if need.Entry {
		list = list[:1]
	}
	return m.cheapest(i, code, list, need.Prices)
}

// PossibleEntrySites returns the file offsets of the instructions that EntrySiteFor may choose
// in function i, for any needs and the default prices: each that is cheaper than all before it.
func (m Code) PossibleEntrySites(i int) (offsets []uint64) {
	f := &m.Entries()[i]
	code, err := m.Image().Code(f.Addr, m.Extent(i))
	if err != nil {
		return nil
	}
	first := 0
	if f.Go {
		first = m.stackCheck(code, f.Addr)
	}
	least := math.Inf(1)
	for _, c := range candidates(code, first, Need{}, 0, !m.isCalled(f.Addr)) {
		if price := DefaultPrices.For(c.method); c.refused == nil && price < least {
			least, offsets = price, append(offsets, m.OffsetOf(f.Addr)+uint64(c.pos))
		}
	}
	return offsets
}

// errLoop is returned for the few functions that begin with a loop.
var errLoop = errors.New("begins with a loop, so that calls cannot be distinguished from iterations")

// isLooped reports whether a call may execute the first instruction of
// function i more than once.
func (m Code) isLooped(i int, code []byte) bool {
	if opensFrame(code) {
		return false
	}
	addr := m.Entries()[i].Addr
	return isEntered(code, 0, 0) || tableEnters(m.Image().Data, code, addr, 0, 0) || m.fragmentEnters(code, addr)
}

// opensFrame reports whether the first block of code moves the stack pointer
// down.
func opensFrame(code []byte) bool {
	for pos, n := 0, 0; n < maxCandidates && pos < len(code); n++ {
		if pushLength(code[pos:]) > 0 {
			return true
		}
		in, err := decode(code[pos:])
		if err != nil || in.transfers() {
			return false
		}
		if in.effect().sp < 0 {
			return true
		}
		pos += in.Len
	}
	return false
}

// cheapest returns the site of the cheapest candidate of function i that is
// executed once per call, the first of several.
func (m Code) cheapest(i int, code []byte, list []candidate, prices Prices) (Site, error) {
	f := &m.Entries()[i]
	first := list[0]
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(prices.For(a.method), prices.For(b.method)) })
	looped := false
	for _, c := range list {
		switch {
		case c.refused != nil:
		case c.pos > 0 && m.entersBetween(i, code, 1, c.pos):
			looped = looped || c.pos == first.pos
		default:
			return m.siteAt(f, code, c)
		}
	}
	if looped {
		return Site{}, errLoop
	}
	return m.siteAt(f, code, first)
}

// entersBetween reports whether anything may enter function i at one of the
// bytes [first, last] after its entry, so that the instructions there are
// executed by other code, or repeatedly.
func (m Code) entersBetween(i int, code []byte, first, last int) bool {
	addr := m.Entries()[i].Addr
	return isEntered(code, first, last) ||
		tableEnters(m.Image().Data, code, addr, first, last) ||
		m.entersFromOutside(i, elf.Span{Start: addr + uint64(first), End: addr + uint64(last) + 1})
}
