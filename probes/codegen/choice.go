package codegen

import (
	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// choice is an expression with few possible values, such as CASE WHEN duration
// > 1s THEN 'long' ELSE 'short' END: the value of the first true condition, or
// the last value.
type choice struct {
	conditions []formula
	values     []types.Value
}

// choice translates a CASE between constants, and any BOOLEAN; nil if the
// kernel cannot compute it.
func (c *compiler) choice(e plan.Expr) *choice {
	var out choice
	add := func(f formula, v types.Value) {
		out.conditions = append(out.conditions, f)
		out.values = append(out.values, v)
	}
	if cases, ok := e.(*plan.Case); ok {
		for _, w := range cases.Whens {
			v, ok := constantOf(w.Then, e.Type())
			if !ok {
				return nil
			}
			add(c.formula(w.Cond, true), v)
		}
		last, ok := constantOf(cases.Else, e.Type())
		if !ok {
			return nil
		}
		out.values = append(out.values, last)
	} else if e.Type() == types.Boolean {
		add(c.formula(e, true), types.Bool(true))
		add(c.formula(e, false), types.Bool(false))
		out.values = append(out.values, types.NullOf(types.Boolean))
	} else {
		return nil
	}
	for _, f := range out.conditions {
		if exists(f, undecided) {
			return nil
		}
	}
	return &out
}

// constantOf returns the value of e if it has no columns; nil is NULL. It
// returns false if e has columns, or its value would have to be converted to t.
func constantOf(e plan.Expr, t types.Type) (v types.Value, ok bool) {
	if e == nil {
		return types.NullOf(t), true
	}
	k, ok := e.(*plan.Const)
	if !ok || k.V.Type != t && !k.V.IsNull {
		return v, false
	}
	return k.V, true
}

// choose writes code that computes the index of the value into the first
// operand.
func (c *aggregator) choose(k *choice) {
	w := c.derive
	end := w.newLabel()
	for i, f := range k.conditions {
		if v, ok := f.(verdict); ok {
			if !v {
				continue
			}
			w.add(asm.Mov.Imm(operands[0], int32(i)))
			w.place(end)
			return
		}
		each(f, c.readAll)
		next := w.newLabel()
		w.formula(f, false, next, c.unsure)
		w.add(asm.Mov.Imm(operands[0], int32(i)))
		w.goTo(end)
		w.place(next)
	}
	w.add(asm.Mov.Imm(operands[0], int32(len(k.conditions))))
	w.place(end)
}
