package uprobe

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// Places that a program's author has marked (USDT, <sys/sdt.h>) are functions of
// function_start that are called usdt:provider:name. They have arguments where
// their notes say so, and no return.

// marked adds the marked places of a module.
func (r *resolver) marked(m *selection.Module) error {
	list, err := usdt.Probes(m.File)
	if err != nil || len(list) == 0 {
		return nil // nothing is marked in it
	}
	texts, err := r.texts(m)
	defer closeTexts(texts)
	if err != nil {
		return err
	}
	var scopes []*selection.Scope
	for i := range list {
		p := &list[i]
		name := p.String()
		if i == 0 || name != r.markedNames[len(r.markedNames)-1] {
			r.markedNames = append(r.markedNames, name)
		}
		ok, err := r.sel.Match(name, "", m.Name())
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		r.found[name] = true
		if r.returns {
			return r.refuseMarked(name)
		}
		r.selected++
		if reason := r.refusesMarked(p, texts); reason != "" {
			r.skip(name, "%s", reason)
			continue
		}
		if scopes == nil {
			r.costs = r.prices()
			scopes = r.scopes(m, unseen)
		}
		for _, s := range scopes {
			r.wants = append(r.wants, want{
				module: m, scope: s, site: p.Site, flags: abi.Placed, marked: p,
				label: label{function: name, module: m.Name(), exe: s.Exe},
			})
		}
	}
	return nil
}

// refuseMarked is the refusal of a query that needs more than entries.
func (r *resolver) refuseMarked(name string) error {
	start, stop := r.at(name)
	if r.spec.Stream == catalog.FunctionStart {
		return plan.Errorf(start, stop, "%s is a place that is passed, which has no depth", name).WithHint("leave out the column depth")
	}
	return plan.Errorf(start, stop, "%s is a place that is passed, not a call that returns", name).
		WithHint("SELECT * FROM function_start WHERE function_name = '%s'", name)
}

// refusesMarked says why p is not probed; "": it is.
func (r *resolver) refusesMarked(p *usdt.Probe, texts []*text) string {
	if p.Refused != nil {
		return p.Refused.Error()
	}
	for i := range min(abi.MaxArgs, len(p.Args)) {
		switch a := &p.Args[i]; {
		case !readsArg(r.spec.Out, i):
		case a.Refused != nil:
			return fmt.Sprintf("arg%d cannot be read: %v", i, a.Refused)
		case a.Float:
			return fmt.Sprintf("arg%d is a floating-point number: args.arg%d reads it", i, i)
		}
	}
	begin, end := p.Site.Offset, p.Site.Offset+uint64(len(p.Site.Bytes))
	for _, t := range texts {
		if reason := t.check(begin, end, []uint64{begin}); reason != "" {
			return reason
		}
	}
	return ""
}

// readsArg reports whether a query reads an argument, be it only in its
// condition.
func readsArg(out types.Schema, i int) bool { return reads(out, colArg0+column(i)) }

// Kinds of bpf.FunctionOperand, and what has no register.
const (
	operandConstant = iota + 1
	operandRegister
	operandMemory
	noRegister = 0xff
)

// registerWords has by op.Register the word of struct pt_regs that keeps it
// (arch/x86/include/asm/ptrace.h).
var registerWords = [...]uint8{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16}

// operandsOf is where the programs find the arguments of a marked place. Those
// that cannot be read nobody reads: they are 0.
func operandsOf(args []usdt.Operand) (out bpf.FunctionOperands) {
	for i := range min(len(args), abi.MaxArgs) {
		a, o := &args[i], &out.Of[i]
		*o = bpf.FunctionOperand{Kind: operandConstant, Base: noRegister, Index: noRegister}
		if a.Refused != nil {
			continue
		}
		o.Value, o.Unused = uint64(a.Value), uint8(64-8*a.Size)
		if a.Signed {
			o.Sign = 1
		}
		switch {
		case a.Memory:
			o.Kind = operandMemory
		case a.Base != op.NoRegister:
			o.Kind = operandRegister
		}
		if a.Base != op.NoRegister {
			o.Base = registerWords[a.Base]
		}
		if a.Index != op.NoRegister {
			o.Index = registerWords[a.Index]
			for s := a.Scale; s > 1; s >>= 1 {
				o.Scale++
			}
		}
	}
	return out
}

// markedArgument is argument n of a marked place by its type, however many there are:
// args.arg7.
func markedArgument(args []usdt.Operand, n int) (signature.Value, error) {
	a := &args[n]
	if a.Refused != nil {
		return signature.Value{}, a.Refused
	}
	i := codegen.Integer{Memory: a.Memory, Offset: a.Value, Bits: uint8(8 * a.Size), Signed: a.Signed}
	switch {
	case a.Index != op.NoRegister:
		i.Indexed, i.Index, i.Scale = true, 8*int16(registerWords[a.Index]), uint8(bits.TrailingZeros64(uint64(a.Scale)))
		if i.Register = codegen.NoRegister; a.Base != op.NoRegister {
			i.Register = 8 * int16(registerWords[a.Base])
		}
	case a.Base == op.NoRegister && a.Memory:
		return signature.Value{}, errors.New("is at an address that is none")
	case a.Base == op.NoRegister:
		i = codegen.Integer{Known: true, Constant: extended(a)}
	default:
		i.Register = 8 * int16(registerWords[a.Base])
		i.Address = !a.Memory && a.Value != 0 // of a variable
	}
	v := signature.Value{Type: types.Bigint}
	switch {
	case a.Float:
		v.Type, v.Float, i.Signed = types.Double, int64(a.Size), false
	case a.Size == 8 && !a.Signed && !i.Known && !i.Address:
		i.Fits = true
	}
	v.Number = &i
	return v, nil
}

// extended is a constant, as wide as it is.
func extended(a *usdt.Operand) int64 {
	unused := 64 - 8*a.Size
	if a.Signed {
		return a.Value << unused >> unused
	}
	return int64(uint64(a.Value) << unused >> unused)
}

// markedNumber is n of a path argn.
func markedNumber(path []string) (n int, ok bool) {
	if len(path) != 1 {
		return 0, false
	}
	digits, ok := strings.CutPrefix(path[0], "arg")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

// operands lists by want where its arguments are; nil where all are where the
// calling convention puts them.
func (r *resolution) operands() []bpf.FunctionOperands {
	if !slices.ContainsFunc(r.wants, func(w want) bool { return w.marked != nil }) {
		return nil
	}
	out := make([]bpf.FunctionOperands, len(r.wants))
	for i, w := range r.wants {
		if w.marked != nil {
			args := w.marked.Args
			if w.returns >= javaEntry {
				args = args[1:] // but for the thread
			}
			out[i] = operandsOf(args)
		}
	}
	return out
}

// semaphore is the file offset of the counter that is raised while w is probed,
// 0 for most.
func (w want) semaphore() uint64 {
	if w.marked == nil {
		return 0
	}
	return w.marked.Semaphore
}
