package calls

import (
	"slices"
	"unsafe"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/selection"
)

// Filter is the part of a query's condition that the kernel tests.
type Filter struct {
	Layout  codegen.Layout
	Program codegen.Program
	Facts   []uint64 // by function: the upper half of its cookie; the layout adds to them
}

// CompileFilter compiles spec.Filter for the functions ws.
func CompileFilter(matcher selection.Matcher, offset int64, spec *plan.Acquire, values *Values, ws []Function) *Filter {
	f := &Filter{Facts: make([]uint64, len(ws))}
	used, most := 0, abi.MaxFacts
	if slices.ContainsFunc(ws, func(w Function) bool { return w.Returns == AtExits }) || ReadsCaller(spec.Out) || spec.ReadsContext() {
		most = abi.MaxFactsExits
	}
	f.Layout = codegen.Layout{
		Columns: layoutOf(spec, offset, values, ws),
		Absent:  ValuePlaces.Absent,
		Text:    values.Test,
		Facts:   int16(unsafe.Offsetof(bpf.FunctionMoment{}.Cookie)),
		Fact: func(e plan.Expr) (uint8, bool) {
			bit := abi.FirstFact + used
			if used == most || !noteFact(matcher, spec, e, ws, f.Facts, 1<<bit) {
				return 0, false
			}
			used++
			return uint8(bit), true
		},
	}
	switch {
	case spec.Filter == nil:
	case spec.Settings.NoKernel:
		f.Program.Residual = spec.Filter
	default:
		f.Program = codegen.Compile(spec.Filter, f.Layout)
	}
	return f
}

// noteFact sets a bit for the functions for which e is true. It fails if e cannot be
// evaluated for all of them, or if e is true for the row of a gap, which has no
// function: then every call could satisfy it.
func noteFact(matcher selection.Matcher, spec *plan.Acquire, e plan.Expr, ws []Function, facts []uint64, bit uint64) bool {
	if slices.ContainsFunc(ws, func(w Function) bool { return w.Returns >= ReportedEntry }) {
		return false // the methods are not known yet
	}
	if spec.Stream == catalog.FunctionCall && mayHoldOfNone(matcher, e) {
		return false
	}
	other := false
	plan.Walk(e, func(x plan.Expr) {
		c, ok := x.(*plan.Col)
		other = other || ok && !slices.Contains(plan.SelectColumns, spec.Out.Fields[c.Index].Name)
	})
	if other { // the executable, which the matcher does not accept
		return false
	}
	match, err := matcher(plan.Transform(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Col); ok {
			i := slices.Index(plan.SelectColumns, spec.Out.Fields[c.Index].Name)
			return &plan.Col{Index: i, Name: c.Name, T: c.T}
		}
		return x
	}))
	if err != nil {
		return false
	}
	for i, w := range ws {
		yes, err := match(w.Label.Function, w.Label.Class, w.Label.Module)
		if err != nil {
			return false
		}
		if yes {
			facts[i] |= bit
		}
	}
	return true
}

// mayHoldOfNone evaluates a condition on functions for a row that has none.
func mayHoldOfNone(matcher selection.Matcher, e plan.Expr) bool {
	match, err := matcher(plan.Transform(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Col); ok {
			return &plan.Const{V: types.NullOf(c.T)}
		}
		return x
	}))
	if err != nil {
		return true
	}
	holds, err := match("", "", "")
	return holds || err != nil
}

// layoutOf returns where the programs find the columns. offset converts boot time to
// time since the epoch. Where exits are probed, a call may return on another thread;
// and it has no retval if it leaves by a tail call, which the programs' tests cannot
// detect.
func layoutOf(spec *plan.Acquire, offset int64, values *Values, ws []Function) []codegen.Column {
	exits, tails := false, false
	for _, w := range ws {
		exits = exits || w.Returns == AtExits
		tails = tails || slices.ContainsFunc(w.Exits, func(s codesite.Site) bool { return !s.RetvalReady })
	}
	var m bpf.FunctionMoment
	number := func(at uintptr) codegen.Column { return codegen.Column{Kind: codegen.Number, Offset: int16(at)} }
	name := func(at uintptr) codegen.Column {
		return codegen.Column{Kind: codegen.Name, Offset: int16(at), Late: spec.Stream == catalog.FunctionEnd}
	}
	out := make([]codegen.Column, len(spec.Out.Fields))
	for i, f := range spec.Out.Fields {
		c := codegen.Column{}
		if v := values.Columns[i]; v != nil {
			if !v.Result || !tails {
				c = v.Layout()
			}
			out[i] = c
			continue
		}
		switch col := ColumnByName[f.Name]; col {
		case ColTime:
			c = number(unsafe.Offsetof(m.Time))
			c.Shift, c.Late = offset, spec.Stream != catalog.FunctionStart
		case ColStart:
			c = number(unsafe.Offsetof(m.Start))
			c.Shift = offset
		case ColDuration:
			c = number(unsafe.Offsetof(m.Duration))
			c.Late = true
		case ColSelf:
			c = number(unsafe.Offsetof(m.Self))
			c.Late = true
		case ColAddress:
			c = number(unsafe.Offsetof(m.Address))
			c.Late = true
		case ColSize:
			if spec.Stream == catalog.Allocation && !slices.ContainsFunc(ws, func(w Function) bool { return w.Unsized }) { // else it may be NULL
				c = number(unsafe.Offsetof(m.Size))
			}
		case ColRetval:
			if !tails {
				c = number(unsafe.Offsetof(m.Retval))
				c.Late = true
			}
		case ColPID:
			c = number(unsafe.Offsetof(m.Pid))
		case ColTID:
			c = number(unsafe.Offsetof(m.Tid))
			c.Late = exits && spec.Stream == catalog.FunctionEnd
		case ColDepth:
			c = number(unsafe.Offsetof(m.Depth))
		case ColProcess:
			c = name(unsafe.Offsetof(m.Process))
		case ColThread:
			c = name(unsafe.Offsetof(m.Thread))
		case ColFunction, ColClass, ColModule:
			c.Kind = codegen.Function
		case ColEvent:
			c = name(unsafe.Offsetof(m.Event))
			c.Late = true
		case ColExe: // a path, which the kernel does not provide
			if !slices.ContainsFunc(ws, func(w Function) bool { return w.Label.Exe == "" }) {
				c.Kind = codegen.Function
			}
		case ColClassLineage, ColMethodSize, ColNative, ColReceiver, ColReceiverClass, ColReceiverLineage, ColDistance:
			// Of the receiver the kernel knows two words, not their meaning.
		case ColUnread: // of a context, a text or NULL
		case ColGoroutine, ColCPUTime, ColReadBytes, ColWrittenBytes: // may be NULL
		case ColCaller, ColStack: // the kernel knows only addresses
		default:
			c = number(unsafe.Offsetof(m.Args) + 8*uintptr(col-ColArg0))
		}
		out[i] = c
	}
	return out
}
