package elf

import "endoscope/probes/unwind"

// UnwindRule returns the rule for the instruction at addr, an address in the
// file; false if the module has none. The return address of a call belongs to
// the instruction before it: callers pass that address less one.
func (m *Module) UnwindRule(addr uint64) (unwind.Rule, bool) {
	if m.hasGo {
		if rule, ok := m.goRule(addr); ok {
			return rule, true
		}
	}
	e := m.unwind.Find(addr)
	if e == nil {
		return unwind.Rule{}, false
	}
	return e.Rule(addr)
}

// goRule returns the rule for Go code, which its own table describes exactly,
// also before a frame has set up its frame pointer. Functions that begin a
// stack have no caller (runtime.topofstack).
func (m *Module) goRule(addr uint64) (unwind.Rule, bool) {
	i, ok := m.FunctionAt(addr)
	if !ok || !m.functions[i].Go {
		return unwind.Rule{}, false
	}
	if m.goOutermost(i) {
		return unwind.Rule{Outermost: true}, true
	}
	depth, known := m.GoDepth(m.functions[i].Addr, addr)
	if !known {
		return unwind.Rule{}, false
	}
	rule := unwind.Rule{CFAReg: unwind.RegSP, CFAOffset: depth + 8, Saved: []unwind.Saved{{Reg: unwind.RegIP, How: unwind.AtOffset, Offset: -8}}}
	if depth > 0 { // frames save the caller's frame pointer at their top
		rule.Saved = append(rule.Saved, unwind.Saved{Reg: unwind.RegBP, How: unwind.AtOffset, Offset: -16})
	}
	return rule, true
}

// goOutermost reports whether function i is the first one of a stack that Go's
// runtime creates.
func (m *Module) goOutermost(i int) bool {
	f := &m.functions[i]
	switch m.text(m.names[f.first], nil) {
	case "runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.morestack", "runtime.rt0_go", "runtime.asmcgocall", "runtime.systemstack", "runtime.sigreturn__sigaction":
		return true
	}
	return false
}
