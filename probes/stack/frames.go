package stack

import (
	"hash/maphash"
	"slices"
	"unsafe"

	"endoscope/planner/types"
)

// frame describes a call in a row: the function whose code was executed, and where in it.
type frame struct {
	function string
	module   string
	system   bool
	sync     syncKind
	// Only where lines are wanted:
	file    string
	line    int  // 0: not known
	inlined bool // the call was compiled into its caller
}

// interner assigns one number to equal frames and one value to equal stacks, shared by
// all their rows: a thread that waits for an hour has one stack.
type interner struct {
	lines   bool // frames have their lines
	numbers map[frame]uint32
	frames  []frame
	values  []types.Value // of frames
	stacks  map[uint64][]*callStack
	held    int // frames in stacks
	seed    maphash.Seed
}

// callStack is an interned stack, leaf first.
type callStack struct {
	frames   []uint32
	complete bool
	value    any // []types.Value, as a LIST column has it
	sync     syncKind
}

// maxHeld bounds the frames in interned stacks. Beyond it the interner is cleared;
// rows and threads keep the stacks that they refer to.
const maxHeld = 4 << 20

func newInterner(lines bool) *interner {
	return &interner{lines: lines, numbers: map[frame]uint32{}, stacks: map[uint64][]*callStack{}, seed: maphash.MakeSeed()}
}

// number interns a frame.
func (in *interner) number(f frame) uint32 {
	if !in.lines {
		f.file, f.line, f.inlined = "", 0, false
	}
	n, ok := in.numbers[f]
	if !ok {
		n = uint32(len(in.frames))
		in.numbers[f] = n
		in.frames = append(in.frames, f)
		value := []types.Value{types.Str(f.function), types.Str(f.module), types.Str(origin(f.system))}
		if in.lines {
			value = append(value, f.place()...)
		}
		in.values = append(in.values, types.ListOf(value))
	}
	return n
}

// place returns the file and the line of a frame, and whether it is inlined.
func (f *frame) place() []types.Value {
	out := []types.Value{types.NullOf(types.Varchar), types.NullOf(types.Bigint), types.Bool(f.inlined)}
	if f.file != "" {
		out[0] = types.Str(f.file)
	}
	if f.line > 0 {
		out[1] = types.Int(int64(f.line))
	}
	return out
}

// stack interns a stack. It does not keep frames.
func (in *interner) stack(frames []uint32, complete bool) *callStack {
	var h uint64
	if len(frames) > 0 {
		h = maphash.Bytes(in.seed, unsafe.Slice((*byte)(unsafe.Pointer(&frames[0])), 4*len(frames)))
	}
	for _, s := range in.stacks[h] {
		if s.complete == complete && slices.Equal(s.frames, frames) {
			return s
		}
	}
	if in.held > maxHeld {
		clear(in.stacks)
		in.held = 0
	}
	s := &callStack{frames: slices.Clone(frames), complete: complete}
	value := make([]types.Value, len(frames))
	for i, n := range frames {
		value[i] = in.values[n]
	}
	s.value = value
	s.sync = in.syncOf(frames)
	in.held += len(frames)
	in.stacks[h] = append(in.stacks[h], s)
	return s
}

// Origins of frames, as a row names them.
const (
	originUser   = "user"
	originSystem = "system"
)

func origin(system bool) string {
	if system {
		return originSystem
	}
	return originUser
}
