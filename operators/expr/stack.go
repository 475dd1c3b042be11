package expr

import (
	"strconv"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Stacks are lists of frames, leaf first, each a list that begins with the
// function's name (stream stack_sample).

// Separators of frames: leaf first, "callee < caller"; root first, as flame graph tools
// read it.
const (
	calledBy = " < "
	calls    = ";"
)

// maxWritten is the largest number of stack texts that a node caches. Equal stacks of a
// stream share one value, and most rows repeat an earlier stack.
const maxWritten = 4096

// written identifies a list by the address of its elements.
type written struct {
	first *types.Value
	len   int
	limit int64
}

// stackText returns the builder of functions that format a stack; limit is the optional
// argument with the number of frames.
func stackText(write func(b []byte, frames []types.Value, limit int64) []byte) builder {
	return func(e *plan.Call, args []node) (node, error) {
		texts := map[written]string{}
		return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
			frames, _ := args[0].Any[i].([]types.Value)
			limit := int64(len(frames))
			if len(args) > 1 {
				limit = min(limit, max(args[1].Int[i], 0))
			}
			if len(frames) == 0 {
				o.setText(i, "")
				return nil
			}
			key := written{&frames[0], len(frames), limit}
			text, ok := texts[key]
			if !ok {
				o.buf = write(o.buf[:0], frames, limit)
				text = string(o.buf)
				if len(texts) >= maxWritten {
					clear(texts)
				}
				texts[key] = text
			}
			o.setText(i, text)
			return nil
		}), nil
	}
}

// formatStack writes the innermost frames, leaf first.
func formatStack(b []byte, frames []types.Value, limit int64) []byte {
	for i, f := range frames[:limit] {
		if i > 0 {
			b = append(b, calledBy...)
		}
		b = append(b, functionOf(f)...)
	}
	return b
}

// foldedStack writes the innermost frames, root first.
func foldedStack(b []byte, frames []types.Value, limit int64) []byte {
	for i := limit - 1; i >= 0; i-- {
		b = append(b, functionOf(frames[i])...)
		if i > 0 {
			b = append(b, calls...)
		}
	}
	return b
}

// functionOf returns the name of a frame's function.
func functionOf(f types.Value) string {
	if parts, ok := f.A.([]types.Value); ok && len(parts) > 0 {
		return functionOf(parts[0])
	}
	if f.Type == types.Varchar {
		return f.S
	}
	return string(appendValue(nil, f))
}

// Elements of a frame. Those from fileAt on are there only where the plan asks for lines.
const (
	moduleAt  = 1
	fileAt    = 3
	lineAt    = 4
	inlinedAt = 5
)

// fieldOf returns an element of a frame; NULL if it has none.
func fieldOf(f types.Value, at int) types.Value {
	if parts, ok := f.A.([]types.Value); ok && at < len(parts) {
		return parts[at]
	}
	return types.NullOf(types.Null)
}

// sourceStack writes the innermost frames with their places, one a line.
func sourceStack(b []byte, frames []types.Value, limit int64) []byte {
	for i, f := range frames[:limit] {
		if i > 0 {
			b = append(b, '\n')
		}
		b = append(b, functionOf(f)...)
		if file := fieldOf(f, fileAt); file.Type == types.Varchar && !file.IsNull {
			b = append(append(b, " at "...), file.S...)
			if line := fieldOf(f, lineAt); line.Type == types.Bigint && !line.IsNull {
				b = strconv.AppendInt(append(b, ':'), line.I, 10)
			}
		}
		if in := fieldOf(f, inlinedAt); in.Type == types.Boolean && !in.IsNull && in.I != 0 {
			b = append(b, " (inlined)"...)
		}
	}
	return b
}

// frameAt returns frame i of a stack: 0 is the leaf, -1 the root; false if there is none.
func frameAt(args []*batch.Column, i int) (types.Value, bool) {
	frames, _ := args[0].Any[i].([]types.Value)
	k := args[1].Int[i]
	if k < 0 {
		k += int64(len(frames))
	}
	if k < 0 || k >= int64(len(frames)) {
		return types.Value{}, false
	}
	return frames[k], true
}

// stackFrame is frame(stack, i).
func stackFrame(o *output, args []*batch.Column, i int) error {
	f, ok := frameAt(args, i)
	if !ok {
		o.setNull(i)
		return nil
	}
	o.setText(i, functionOf(f))
	return nil
}

// frameField is a field of frame(stack, i).
func frameField(at int) func(o *output, args []*batch.Column, i int) error {
	return func(o *output, args []*batch.Column, i int) error {
		f, _ := frameAt(args, i)
		v := fieldOf(f, at)
		switch {
		case v.IsNull || v.Type != o.col.Type: // a list that is no stack may have anything there
			o.setNull(i)
		case v.Type == types.Varchar:
			o.setText(i, v.S)
		case v.Type == types.Boolean:
			o.col.Bool[i] = v.I != 0
		default:
			o.col.Int[i] = v.I
		}
		return nil
	}
}
