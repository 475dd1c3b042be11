package codesite

import (
	"bytes"
	"errors"
	"fmt"
)

// Body returns where the body of function i begins: its first instruction or,
// in a Go function, the first one after the stack check, which is executed
// again when the stack has grown.
func (m Code) Body(i int) uint64 {
	f := &m.Entries()[i]
	if !f.Go {
		return f.Addr
	}
	code, err := m.Image().Code(f.Addr, m.Extent(i))
	if err != nil {
		return f.Addr
	}
	return f.Addr + uint64(m.stackCheck(code, f.Addr))
}

// ErrGrowsStack is returned for code that only grows a goroutine's stack,
// before the function body begins.
var ErrGrowsStack = errors.New("only grows the stack")

// SitesAt returns the instructions of function i at addrs, which another
// source, such as a line table, says begin there. They are probed each time
// they are executed, however often in a call. A site whose Method is "" cannot
// be probed, for the reason in why, to be read after "the code there". The code
// is decoded from the function's entry on, since a breakpoint within an
// instruction would make the target execute another one.
func (m Code) SitesAt(i int, addrs []uint64) (sites []Site, why []error, err error) {
	f := &m.Entries()[i]
	if err := m.refuse(i, "ask for"); err != nil {
		return nil, nil, m.withVariants(i, err)
	}
	code, err := m.Image().Code(f.Addr, m.Extent(i))
	if err != nil {
		return nil, nil, err
	}
	if len(code) > maxBodyBytes {
		return nil, nil, fmt.Errorf("is larger than %d KiB", maxBodyBytes>>10)
	}
	asked := make(map[uint64]bool, len(addrs))
	for _, at := range addrs {
		asked[at] = true
	}
	begins := make(map[uint64]int, len(addrs)) // length of the instruction at an address
	for pos := 0; pos < len(code); {
		in, err := decode(code[pos:])
		if err != nil {
			break // instruction boundaries after this are unknown
		}
		if at := f.Addr + uint64(pos); asked[at] {
			begins[at] = in.Len
		}
		pos += in.Len
	}
	sites, why = make([]Site, len(addrs)), make([]error, len(addrs))
	for k, at := range addrs {
		n, ok := begins[at]
		if !ok {
			why[k] = ErrApart
			continue
		}
		pos := int(at - f.Addr)
		if f.Go && m.callsMorestack(code, f.Addr, pos) {
			why[k] = ErrGrowsStack
			continue
		}
		how, err := method(code[pos:], n)
		switch {
		case err != nil:
			in, _ := decode(code[pos:])
			why[k] = fmt.Errorf("is `%s`, which %w", in.syntax(at), err)
			continue
		case how == Nop && pos > 0: // a call in its place pushes onto what a leaf keeps below its stack pointer
			why[k] = errors.New("is a nop that the kernel would replace by a call")
			continue
		}
		sites[k] = Site{Offset: m.OffsetOf(f.Addr) + uint64(pos), Addr: at, Method: how, PastEntry: pos > 0, Bytes: bytes.Clone(code[pos : pos+n])}
	}
	return sites, why, nil
}

// ErrApart is returned for code outside of a function's main part, where
// compilers put what is rarely executed, or that begins no instruction of it.
var ErrApart = errors.New("does not begin an instruction of the function's main part")

// callsMorestack reports whether the first call or jump of the code at byte pos
// is to the function that grows a Go stack, before the function body begins.
func (c Code) callsMorestack(code []byte, addr uint64, pos int) bool {
	for pos < len(code) {
		in, err := decode(code[pos:])
		if err != nil {
			return false
		}
		if in.transfers() {
			target, direct := in.target(addr + uint64(pos))
			return direct && c.GrowsStack(target)
		}
		pos += in.Len
	}
	return false
}
