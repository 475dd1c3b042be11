package handlers

import "endoscope/planner/types"

// Frame is a function on a stack.
type Frame struct {
	Function string // with its class, as users see it
	Module   string
	System   bool // not the user's code

	traits traits
}

// traits are the properties derived from a function's name (artefact.go), computed once.
type traits uint8

const (
	known traits = 1 << iota
	artefact
	threadStart
	incidental
	transparent
	waker
)

func (f *Frame) is(t traits) bool {
	if f.traits == 0 {
		f.traits = known
		for _, one := range []struct {
			trait traits
			holds func(string) bool
		}{{artefact, isArtefact}, {threadStart, isThreadStart}, {incidental, isIncidental}, {transparent, isTransparent}, {waker, isWaker}} {
			if one.holds(f.Function) {
				f.traits |= one.trait
			}
		}
	}
	return f.traits&t != 0
}

// Reader converts values of the column stack, each a list of [function, module, 'user' or
// 'system', and further elements], to frames. Rows with equal stacks share one list, whose frames are created
// once. The zero value is ready.
type Reader struct{ seen map[*types.Value][]Frame }

// maxStacks is the largest number of stacks cached.
const maxStacks = 1 << 16

// Frames returns the frames of a stack. Callers must not change them.
func (r *Reader) Frames(list []types.Value) []Frame {
	if len(list) == 0 {
		return nil
	}
	if have, ok := r.seen[&list[0]]; ok && len(have) == len(list) {
		return have
	}
	frames := make([]Frame, len(list))
	for i, f := range list {
		part, _ := f.A.([]types.Value)
		if len(part) >= 3 {
			frames[i] = Frame{Function: part[0].S, Module: part[1].S, System: part[2].S != "user"}
		}
	}
	if r.seen == nil || len(r.seen) >= maxStacks {
		r.seen = map[*types.Value][]Frame{}
	}
	r.seen[&list[0]] = frames
	return frames
}
