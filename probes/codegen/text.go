package codegen

import (
	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// maxTested limits the texts compared in the kernel; longer ones are compared
// by the engine.
const maxTested = 256

// text tests a text; nil if the kernel cannot decide it.
func (c *compiler) text(index int, t TextTest, want bool) formula {
	if c.in.Text == nil {
		return nil
	}
	for _, list := range [][]string{t.Equal, t.Begin} {
		for _, s := range list {
			if len(s) > maxTested {
				return nil
			}
		}
	}
	bit, ok := c.in.Text(index, t)
	if !ok {
		return nil
	}
	return c.bit(index, uint64(1)<<bit, want)
}

// bit tests a bit of the word of NULLs, for a column.
func (c *compiler) bit(index int, mask uint64, want bool) *test {
	col := c.in.Columns[index]
	t := &test{columns: []int{index}, late: col.Late, absent: c.in.Absent}
	if mask != nullBit(col) {
		t.nulls = nullBit(col)
	}
	absent := c.in.Absent
	t.code = func(w *writer, jumpIf bool, target, _ label) {
		w.add(asm.LoadMem(operands[0], argument, absent, asm.DWord))
		w.constant(scratch, int64(mask))
		w.add(asm.And.Reg(operands[0], scratch))
		op := asm.JNE
		if jumpIf != want {
			op = asm.JEq
		}
		w.jump(op.Imm(operands[0], 0, ""), target)
	}
	return t
}

// matchText translates a test of a text against a constant; nil if the kernel
// cannot decide it.
func (c *compiler) matchText(fn string, index int, k *plan.Const, want bool) formula {
	if k.V.IsNull {
		return verdict(false)
	}
	t := TextTest{}
	switch fn {
	case "=", "<>":
		t.Equal = []string{k.V.S}
		want = want == (fn == "=")
	case "starts_with":
		t.Begin = []string{k.V.S}
	case "like":
		s, prefix, known := likeText(k.V.S)
		switch {
		case !known:
			return nil
		case prefix:
			t.Begin = []string{s}
		default:
			t.Equal = []string{s}
		}
	default:
		return nil
	}
	return c.text(index, t, want)
}

// isNull tests whether a column is NULL; nil if the kernel cannot decide it.
func (c *compiler) isNull(col *plan.Col, want bool) formula {
	in := c.in.Columns[col.Index]
	switch in.Kind {
	case Number, Name, Words, Enum:
		if in.Null == 0 {
			return verdict(!want)
		}
		return c.bit(col.Index, nullBit(in), want)
	}
	return nil
}

// truth tests a BOOLEAN column; nil if the kernel cannot decide it.
func (c *compiler) truth(col *plan.Col, want bool) formula {
	in := c.in.Columns[col.Index]
	if in.Kind != Number || col.T != types.Boolean {
		return nil
	}
	return &test{columns: []int{col.Index}, late: in.Late, nulls: nullBit(in), absent: c.in.Absent,
		code: func(w *writer, jumpIf bool, target, _ label) {
			w.add(asm.LoadMem(operands[0], argument, in.Offset, asm.DWord))
			op := asm.JNE
			if jumpIf != want {
				op = asm.JEq
			}
			w.jump(op.Imm(operands[0], 0, ""), target)
		}}
}

// equalTruth translates the comparison of a BOOLEAN column with TRUE or FALSE;
// nil if it is none.
func (c *compiler) equalTruth(e *plan.Call, want bool) formula {
	if e.Fn != "=" && e.Fn != "<>" || len(e.Args) != 2 {
		return nil
	}
	col, isCol := e.Args[0].(*plan.Col)
	k, isConst := e.Args[1].(*plan.Const)
	if !isCol || !isConst || col.T != types.Boolean || k.V.IsNull {
		return nil
	}
	return c.truth(col, want == ((e.Fn == "=") == (k.V.I != 0)))
}
