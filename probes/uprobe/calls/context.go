package calls

import (
	"sync"
	"unsafe"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/selection"
)

// KeyBytes is the most of a context's key that is kept (context.h).
const KeyBytes = 64

// contextWords returns how many words of an event hold a key of that type, with its size.
func contextWords(t types.Type) int {
	if t == types.Varchar {
		return 1 + KeyBytes/8
	}
	return 2
}

// streamOf returns the stream whose columns an acquisition has: one that follows a context
// has the key, of the functions that begin it.
func streamOf(spec *plan.Acquire) string {
	if spec.Follows != nil {
		return spec.Follows.Begin.Stream
	}
	return spec.Stream
}

// Marks selects the functions that begin and end a context. It is safe for concurrent use.
type Marks struct {
	mu           sync.Mutex
	begins, ends *selection.Selector // ends is nil if the context ends with the call that began it
}

// MarksOf compiles the selections of a context; nil for no context.
func MarksOf(c *plan.Context, compile selection.Matcher) (m *Marks, err error) {
	if c == nil {
		return nil, nil
	}
	m = &Marks{}
	if m.begins, err = selection.New(c.Begin.Select, compile); err == nil && c.End != nil {
		m.ends, err = selection.New(c.End.Select, compile)
	}
	return m, err
}

// Of reports whether a function begins the context, and whether it ends it.
func (m *Marks) Of(f *elf.Function, module string) (begins, ends bool) {
	if m == nil {
		return false, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begins.Has(f, module), m.ends != nil && m.ends.Has(f, module)
}

// SelectMarked returns the selection of all functions that begin or end a context.
func SelectMarked(c *plan.Context) plan.Expr {
	if c.End == nil {
		return c.Begin.Select
	}
	return &plan.Call{Fn: "or", Args: []plan.Expr{c.Begin.Select, c.End.Select}, T: types.Boolean}
}

// Following is how programs follow a context (context.h, opening.h).
type Following struct {
	Flags          uint32
	KeySlot, KeyAt uint32
}

// Flags of Following.
const (
	follows = 1 << iota
	beginsLate
	endsEarly
	ofCall
	keyText
)

// Facts in the cookie of a function that begins or ends a context.
const (
	begins = 1 << (abi.FirstFact + iota)
	ends
)

// Follow prepares an acquisition that follows a context: it marks its functions. The key is
// column number key.
func Follow(c *plan.Context, cols []Column, key int, values *Values, ws []Function, f *Filter, w *Request) (*Following, error) {
	out := &Following{Flags: follows}
	if c.Begin.Stream == catalog.FunctionEnd {
		out.Flags |= beginsLate
	}
	if c.End == nil {
		out.Flags |= ofCall
	} else if c.End.Stream == catalog.FunctionStart {
		out.Flags |= endsEarly
	}
	for i, x := range ws {
		if x.Begins {
			f.Facts[i] |= begins
		}
		if x.Ends {
			f.Facts[i] |= ends
		}
	}
	slot := RetvalSlot
	switch v := values.Columns[key]; {
	case v != nil && !v.isKey():
		return nil, NoKey(c, v.Name, v.T)
	case v != nil && v.Text:
		out.Flags |= keyText
	case v != nil:
		slot = v.Slot
	case cols[key].isArg():
		slot = int(cols[key] - ColArg0)
	}
	var moment bpf.FunctionMoment
	out.KeySlot, out.KeyAt = uint32(slot), uint32(unsafe.Offsetof(moment.Args))+8*uint32(slot)
	if slot == RetvalSlot {
		out.KeyAt = uint32(unsafe.Offsetof(moment.Retval))
	}
	w.Options &^= abi.SendArgs | abi.SendTexts | abi.KeepTexts // nothing is sent
	return out, nil
}

// isKey reports whether a value can be the key of a context: a whole number, or a text whose
// bytes are those that are read.
func (v *Value) isKey() bool {
	if v.Printed() || v.Packed || v.isWritten() || v.As == AsSymbol {
		return false
	}
	return v.T == types.Varchar && v.Text || v.T == types.Bigint || v.T == types.Ubigint
}

// KeepKeys leaves the key of a context to the functions that begin it.
func KeepKeys(c *plan.Context, ws []Function) error {
	for i := range ws {
		for k := range ws[i].Values {
			switch v := &ws[i].Values[k]; {
			case !ws[i].Begins:
				*v = FunctionValue{err: errNoKey}
			case v.err != nil:
				return &plan.InColumn{Column: c.Name, Err: v.err}
			}
		}
	}
	return nil
}

// errNoKey is the error of a key of a function that only ends the context.
var errNoKey = plan.Errorf(-1, -1, "the function does not begin the context")

// NoKey returns the error for a key that is neither a whole number nor a text.
func NoKey(c *plan.Context, key string, t types.Type) error {
	return &plan.InColumn{Column: c.Name, Err: plan.Errorf(-1, -1, "the key of %s is neither a whole number nor a text: %s is %s", c.Name, key, t).
		WithHint("CREATE OR REPLACE CONTEXT %s with another KEY, such as args.id or str(args.name)", c.Name)}
}
