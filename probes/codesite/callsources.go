package codesite

import (
	"cmp"
	"slices"
	"sync"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
	"endoscope/probes/unwind"
)

// CallSource is one origin of the calls of a function.
type CallSource struct {
	From  int // a function of the module; each of its calls
	Times int // calls it this many times
	// Through is the number of bytes of From, from its entry, that prove this.
	Through uint64
}

// CallSources returns where all calls of function i come from, if that can be
// proven: the number of its calls is then the sum over the sources of their
// number of calls times Times. nil: only a probe can count them. (T. Ball and
// J. Larus: Optimally Profiling and Tracing Programs, 1992: of counts that
// satisfy such equations, those of a spanning tree need no counter.)
//
// It is proven for a function that is not exported, whose address occurs
// nowhere in the file, which has an unwind entry of its own, as compilers emit
// them, and which is reached only by direct calls and jumps that their
// functions execute exactly once per call; see unconditionalCalls. A call is
// counted some instructions before it happens, and also if its thread ends in
// between. Calls that the file does not show (from a debugger, or from code
// injected into the process) are not counted.
func (m Code) CallSources(i int) []CallSource {
	if m.IsExported(i) {
		return nil // true for most functions, and cheap to check
	}
	m.ProveCallSources()
	return m.flow.sources[i]
}

// ProveCallSources computes the answers of CallSources for all functions that
// are not exported, which takes long.
func (m Code) ProveCallSources() {
	m.flow.proven.Do(func() { m.flow.sources = m.findCallSources() })
}

// IsExported reports whether function i may have callers that the file does not
// show, above all in other files.
func (m Code) IsExported(i int) bool {
	m.flow.named.Do(func() { m.flow.exported = m.exportedFunctions() })
	return m.flow.exported.has(i)
}

// flow is the known sources of calls.
type flow struct {
	named    sync.Once // guards exported
	exported bitset    // by function
	proven   sync.Once // guards of
	sources  map[int][]CallSource
}

// exportedFunctions returns the functions that are not in unexported.
func (c Code) exportedFunctions() bitset {
	exported := make(bitset, len(c.Entries())/64+1)
	unexported, ok := c.unexported()
	for i := range c.Entries() {
		if !ok || !unexported.has(c.Entries()[i].Addr) {
			exported[i/64] |= 1 << (i % 64)
		}
	}
	return exported
}

// TextBytes returns the size of the module's code. The cost of the first call
// of CallSources grows with it.
func (m Code) TextBytes() (n uint64) {
	for _, s := range m.Image().Exec {
		n += s.End - s.Start
	}
	return n
}

// maxCallSources limits the references to a function that are examined.
const maxCallSources = 64

// findCallSources proves the call sources of functions that are not exported,
// as far as possible.
func (c Code) findCallSources() map[int][]CallSource {
	flows := map[int][]CallSource{}
	hidden, ok := c.unexported()
	if !ok {
		return flows
	}
	constants, ok := c.removeReferenced(hidden)
	if !ok {
		return flows
	}
	refs := c.references(hidden, constants)
	p := &callProof{c: c, hidden: hidden, prompt: map[uint64]bool{}}
	certain := map[int][]unconditionalCall{}
	for len(refs) > 0 {
		target := refs[0].target
		n := slices.IndexFunc(refs, func(r reference) bool { return r.target != target })
		if n < 0 {
			n = len(refs)
		}
		to := refs[:n]
		refs = refs[n:]
		if n > maxCallSources || !hidden.has(target) {
			continue
		}
		if e := c.UnwindTable().Find(target); e == nil || e.Start != target {
			// Not emitted by a compiler. Hand-written code addresses its parts
			// by offsets of its own, as the builtins of V8 and LuaJIT do.
			continue
		}
		if flow := c.callSourcesOf(p, certain, to); flow != nil && !c.fallsInto(target) {
			flows[c.functionAt(target)] = flow
		}
	}
	return flows
}

// callSourcesOf derives the call sources of a function from all references to
// it; nil if one of them is no unconditional call.
func (c Code) callSourcesOf(p *callProof, certain map[int][]unconditionalCall, refs []reference) (flow []CallSource) {
	for _, r := range refs { // most fail this check at once
		i := c.functionAt(r.at)
		if !r.short && (i < 0 || c.Entries()[i].Addr == r.target || r.end()-c.Entries()[i].Addr > maxUnconditionalBytes) {
			return nil
		}
	}
	for _, r := range refs {
		i := c.functionAt(r.at)
		if i < 0 || c.Entries()[i].Addr == r.target {
			return nil
		}
		calls, ok := certain[i]
		if !ok {
			calls = p.unconditionalCalls(i)
			certain[i] = calls
		}
		if !slices.Contains(calls, unconditionalCall{r.target, r.end()}) {
			if r.short && !c.isInstruction(r.at-1) {
				continue
			}
			return nil
		}
		through := r.end() - c.Entries()[i].Addr
		if n := len(flow); n > 0 && flow[n-1].From == i { // refs are sorted by address
			flow[n-1].Times++
			flow[n-1].Through = through
		} else {
			flow = append(flow, CallSource{From: i, Times: 1, Through: through})
		}
	}
	return flow
}

// fallsInto reports whether execution may reach addr from the code before it,
// as in hand-written code.
func (c Code) fallsInto(addr uint64) bool {
	home, _ := c.home(addr - 1)
	if home.Start == home.End { // padding after a function
		home.Start = c.beginsBefore(addr)
	}
	if home.Start == 0 || addr-home.Start > maxFallBytes {
		return true
	}
	code, err := c.Image().Code(home.Start, addr-home.Start)
	if err != nil {
		return true
	}
	falls := true
	for pos := 0; pos < len(code); {
		in, err := decode(code[pos:])
		if err != nil {
			return true
		}
		n := node{instruction: in}
		switch {
		case in.Op == x86asm.NOP, in.Op == x86asm.INT: // padding
		case in.Op == x86asm.CALL: // a call that does not return
			falls = false
		default:
			falls = n.falls()
		}
		pos += in.Len
	}
	return falls
}

// maxFallBytes limits the code decoded to see how it ends.
const maxFallBytes = 16 << 10

// beginsBefore returns the start of the last function or fragment before addr;
// 0: unknown.
func (c Code) beginsBefore(addr uint64) (start uint64) {
	if i, _ := slices.BinarySearchFunc(c.Entries(), addr, func(f elf.Entry, addr uint64) int { return cmp.Compare(f.Addr, addr) }); i > 0 {
		start = c.Entries()[i-1].Addr
	}
	i, _ := slices.BinarySearchFunc(c.UnwindTable().Entries, addr, func(e unwind.Entry, addr uint64) int { return cmp.Compare(e.Start, addr) })
	if i > 0 {
		start = max(start, c.UnwindTable().Entries[i-1].Start)
	}
	return start
}
