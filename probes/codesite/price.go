package codesite

import "bytes"

// Need says what a program at a site reads, and thereby which instructions may
// precede a cheaper site. The zero value needs nothing: it counts.
type Need struct {
	// Args: the integer argument registers and the memory they point to are as
	// at the function's entry.
	Args bool
	// Only restricts Args to the values of some arguments: bit n for argument n. 0: all of
	// them, and the memory they point to.
	Only uint8
	// Return: a return trap will be armed, which requires the return address on
	// top of the stack.
	Return bool
	// Value, at an exit: rax holds the return value.
	Value bool
	// Results, at an exit: all registers in which the language returns values,
	// and memory, are as at the return.
	Results bool
	// Entry: only the function's first instruction may be the site, as for
	// tools that do not look for another.
	Entry bool
	// Prices order the sites; the zero value means DefaultPrices.
	Prices Prices
}

// Prices are the costs of a probe hit to the target by the site's method, in
// ns.
type Prices struct{ Emulated, Stepped, Nop float64 }

// DefaultPrices were measured in a virtual machine with Linux 6.18. Older
// kernels step the 5-byte nop; there Nop must be set to the price of Stepped.
var DefaultPrices = Prices{Emulated: 530, Stepped: 18_000, Nop: 210}

// For returns the price of a method.
func (p Prices) For(method string) float64 {
	if p == (Prices{}) {
		p = DefaultPrices
	}
	switch method {
	case Emulated:
		return p.Emulated
	case Nop:
		return p.Nop
	}
	return p.Stepped
}

// fiveByteNop is the instruction that Nop prices.
var fiveByteNop = []byte("\x0f\x1f\x44\x00\x00")

// least returns a lower bound of the price of a site among the first
// instructions of code.
func (p Prices) least(code []byte) float64 {
	least := min(p.For(Emulated), p.For(Stepped))
	if nop := p.For(Nop); nop < least && bytes.Contains(code[:min(len(code), maxCandidates*maxInstruction)], fiveByteNop) {
		return nop
	}
	return least
}

// TextPages returns how many 4 KiB pages of code the kernel copies for each
// process when it patches the sites. All must be of one module.
func TextPages(sites []Site) int {
	const pageBits = 12
	pages := make(map[uint64]struct{}, len(sites))
	for _, s := range sites {
		pages[s.Offset>>pageBits] = struct{}{}
		if s.Method == Nop && len(s.Bytes) > 0 { // all of its bytes are replaced
			pages[(s.Offset+uint64(len(s.Bytes))-1)>>pageBits] = struct{}{}
		}
	}
	return len(pages)
}
