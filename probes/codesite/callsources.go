package codesite

import (
	"cmp"
	"slices"
	"sync"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
	"endoscope/probes/unwind"
)

// CallSource is a source of the calls of a function.
type CallSource struct {
	From  int // a function of the module, each call of which
	Times int // calls it so often
	// Through is how many bytes of From, from its entry, say so.
	Through uint64
}

// CallSources are where all calls of function i come from, if that can be proven:
// the number of its calls then is the sum of the numbers of theirs, each
// multiplied by Times. nil: nothing but a probe tells. (T. Ball and J. Larus:
// Optimally Profiling and Tracing Programs, 1992: of counts that obey such
// equations those of a spanning tree need no counter.)
//
// It is proven of a function that is not exported, whose address is nowhere in
// the file, which has an unwind entry of its own, as compilers make them, and to
// which nothing leads but direct calls and jumps that their functions execute
// exactly once in each call; see unconditionalCalls. A call is
// counted some instructions earlier than it happens, and also if its thread is
// ended in between. What the file does not show (a debugger that calls a
// function, code that is put into the process) is not counted.
func (m Code) CallSources(i int) []CallSource {
	if m.IsExported(i) {
		return nil // as most do, which takes no time to find out
	}
	m.ProveCallSources()
	return m.flow.of[i]
}

// ProveCallSources finds out what CallSources will be asked of functions that are not
// exported, which takes a while.
func (m Code) ProveCallSources() {
	m.flow.proven.Do(func() { m.flow.of = m.findCallSources() })
}

// IsExported reports whether calls of function i may come from where the file
// does not tell: from other files, above all.
func (m Code) IsExported(i int) bool {
	m.flow.named.Do(func() { m.flow.exported = m.exportedFunctions() })
	return m.flow.exported.has(i)
}

// flow is what is known of the sources of calls.
type flow struct {
	named    sync.Once // guards exported
	exported bitset    // by function
	proven   sync.Once // guards of
	of       map[int][]CallSource
}

// exportedFunctions are those of which unexported does not speak.
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

// TextBytes is how much code the module has. What CallSources takes grows with it,
// at its first call.
func (m Code) TextBytes() (n uint64) {
	for _, s := range m.Image().Exec {
		n += s.End - s.Start
	}
	return n
}

// maxCallSources is how many references to a function are looked at.
const maxCallSources = 64

// findCallSources proves what it can of functions that are not exported.
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
			// No compiler made it. Hand-made code finds its parts by offsets
			// of its own, as the builtins of V8 and LuaJIT are found.
			continue
		}
		if flow := c.callSourcesOf(p, certain, to); flow != nil && !c.fallsInto(target) {
			flows[c.functionAt(target)] = flow
		}
	}
	return flows
}

// callSourcesOf makes the sources of the calls of a function of all references to it; nil if one
// is no certain call.
func (c Code) callSourcesOf(p *callProof, certain map[int][]unconditionalCall, refs []reference) (flow []CallSource) {
	for _, r := range refs { // most are seen to be no certain call at once
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
		if n := len(flow); n > 0 && flow[n-1].From == i { // they are sorted by address
			flow[n-1].Times++
			flow[n-1].Through = through
		} else {
			flow = append(flow, CallSource{From: i, Times: 1, Through: through})
		}
	}
	return flow
}

// fallsInto reports whether execution may get to addr from the code before it,
// as hand-written code does.
func (c Code) fallsInto(addr uint64) bool {
	home, _ := c.home(addr - 1)
	if home.Start == home.End { // padding behind a function
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
		case in.Op == x86asm.CALL: // of what does not return
			falls = false
		default:
			falls = n.falls()
		}
		pos += in.Len
	}
	return falls
}

// maxFallBytes bounds how much code is decoded to see how it ends.
const maxFallBytes = 16 << 10

// beginsBefore is where the last function or fragment before addr begins; 0:
// none is known.
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
