package expr

import (
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

// stackFrame is frame(stack, i): 0 is the leaf, -1 the root.
func stackFrame(o *output, args []*batch.Column, i int) error {
	frames, _ := args[0].Any[i].([]types.Value)
	k := args[1].Int[i]
	if k < 0 {
		k += int64(len(frames))
	}
	if k < 0 || k >= int64(len(frames)) {
		o.setNull(i)
		return nil
	}
	o.setText(i, functionOf(frames[k]))
	return nil
}
