package decode

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/container"
	"endoscope/probes/process"
	"endoscope/probes/rows"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// appenders build the columns of all streams of this package from an event. A
// subscription holds only the appenders of the columns that its query reads, so an
// event costs one loop over them.
//
// arg0 to arg5 are the raw integer argument registers at the entry (System V: rdi rsi
// rdx rcx r8 r9; Go: rax rbx rcx rdi rsi r8), even if the function has fewer
// arguments; retval is rax at the return. function_duration's timestamp is the end of
// the call; its process and thread_name are those at the beginning. function_call sets
// process, thread_name and tid at each event of a call; its function is NULL at a gap.
var appenders = container.Extend(rows.Columns[event]{
	"timestamp":     recorded(rows.Time(func(r *bpf.FunctionEvent) *uint64 { return &r.Time })),
	"pid":           recorded(rows.Half(func(r *bpf.FunctionEvent) *uint32 { return &r.Pid })),
	"tid":           recorded(rows.Half(func(r *bpf.FunctionEvent) *uint32 { return &r.Tid })),
	"depth":         recorded(rows.Quarter(func(r *bpf.FunctionEvent) *uint16 { return &r.Depth })),
	"process":       rows.Bytes(func(e *event) *[]byte { return &e.process }),
	"thread_name":   rows.Bytes(func(e *event) *[]byte { return &e.thread }),
	"event":         rows.Code(func(e *event) *uint32 { return &e.named }),
	"function_name": rows.Code(func(e *event) *uint32 { return &e.label.function }),
	"class":         rows.Code(func(e *event) *uint32 { return &e.label.class }),
	"module":        rows.Code(func(e *event) *uint32 { return &e.label.module }),
	"exe":           rows.Other(types.PhysCode, false, appendExe),
	"start_time":    rows.Time(func(e *event) *uint64 { return &e.start }),
	"duration":      rows.Word(func(e *event) *uint64 { return &e.duration }),
	"self_time":     rows.Word(func(e *event) *uint64 { return &e.self }),
	"goroutine":     rows.Count(func(e *event) int64 { return int64(e.goroutine) }),
	"retval": rows.IntOr(func(e *event) (int64, bool) {
		return int64(e.retval), e.Function&(1<<(calls.FirstAbsent+calls.RetvalSlot)) == 0
	}),
	"arg0": argument(0), "arg1": argument(1), "arg2": argument(2), "arg3": argument(3), "arg4": argument(4), "arg5": argument(5),

	"address": rows.Word(func(e *event) *uint64 { return &e.address }),
	"size":    rows.IntOr(func(e *event) (int64, bool) { return int64(e.size), e.size != selection.NoSize }),

	// The function that the call returns to, and the stack at the call's entry. caller
	// is NULL where the address lies in no code, or in code without a name.
	"caller": rows.TextOr(func(e *event) (string, bool) {
		if e.kind == gapInitial {
			return "", false
		}
		return e.subscription.Stacks.Caller(int(e.Pid), int64(e.Time), e.image, e.caller)
	}),
	"stack": rows.List(func(e *event) any {
		if e.kind == gapInitial || e.kind == EventUnwind[0] {
			return nil
		}
		return e.subscription.stackOf(e)
	}),

	// The resources used by the call's thread from its entry to its return: CPU time,
	// and bytes transferred by read(2), write(2) and the like; sockets count only if
	// these calls are used. NULL where the call returned on another thread, or the
	// kernel does not count bytes.
	"cpu_time": costOf(0), "read_bytes": costOf(1), "written_bytes": costOf(2),

	// The call's object and method (receivers.go).
	"receiver":         rows.IntOr(func(e *event) (int64, bool) { return int64(e.object.address), e.object.known }),
	"receiver_class":   rows.TextOr(func(e *event) (string, bool) { return e.object.className() }),
	"receiver_lineage": rows.TextOr(func(e *event) (string, bool) { return e.object.lineage() }),
	"lookup_distance": rows.IntOr(func(e *event) (int64, bool) {
		return int64(e.object.distance), e.object.class != nil && e.object.distance != unrelated
	}),
	"class_lineage": rows.Other(types.PhysCode, true, func(c *batch.Column, row int, e *event) {
		m := e.functionColumns()
		if !m.known {
			c.Nulls.Set(row)
		}
		c.Code = append(c.Code, m.lineage)
	}),
	"method_size": rows.Count(func(e *event) int64 { return e.functionColumns().size }),
	"is_native":   rows.BoolOr(func(e *event) (bool, bool) { return e.functionColumns().native, e.kind != gapInitial }),
}, func(e *event) *container.Container { return process.ContainerOf(int(e.Pid)) })

// Streams checks the appenders against the catalog: a column that only one of them has
// stops the program at its start.
var Streams = rows.NewTables([]string{catalog.FunctionStart, catalog.FunctionEnd, catalog.FunctionDuration, catalog.FunctionCall, catalog.Allocation, catalog.Deallocation}, appenders)

// frame is the appender of FrameColumn.
var frame = rows.Word(func(e *event) *uint64 { return &e.frame })

// recorded returns a column of the header that every record of the ring begins with.
func recorded(c rows.Column[bpf.FunctionEvent]) rows.Column[event] {
	return rows.Through(func(e *event) **bpf.FunctionEvent { return &e.FunctionEvent }, c)
}

// argument returns the column of raw argument i.
func argument(i int) rows.Column[event] {
	return rows.Through(func(e *event) **[abi.MaxArgs]uint64 { return &e.args },
		rows.Word(func(args *[abi.MaxArgs]uint64) *uint64 { return &args[i] }))
}

// costOf returns the column of a resource that a call used.
func costOf(i int) rows.Column[event] {
	return rows.IntOr(func(e *event) (int64, bool) { n := int64(e.cost[i]); return n, n != -1 })
}

// appendersOf returns the appenders of a query's columns, of the given types.
func appendersOf(w calls.Request, types []types.Type) []rows.Column[event] {
	columns := make([]rows.Column[event], len(w.Cols))
	for i, c := range w.Cols {
		switch c {
		case calls.ColUnread:
			columns[i] = rows.Unread[event](types[i].Physical())
		case calls.ColValue:
			columns[i] = valueColumn(w.Values.Columns[i])
		case calls.ColFrame:
			columns[i] = frame
		case calls.ColContext:
			columns[i] = contextColumn(types[i])
		default:
			columns[i] = appenders[nameOf[c]]
		}
	}
	return columns
}

// appendExe appends the executable of a process: the label's where the function
// belongs to the executable itself, else the path found in /proc or cached from there,
// else NULL.
func appendExe(c *batch.Column, row int, e *event) {
	own := e.label.exe
	if c.Dict.Values()[own] != "" {
		c.Code = append(c.Code, own)
		return
	}
	exe := e.subscription.Executables.Find(int(e.Pid))
	if before := e.subscription.ExeBefore; exe == "" && before != nil {
		exe = before(int(e.Pid), int64(e.Time))
		e.subscription.Executables.note(int(e.Pid), exe)
	}
	if exe == "" {
		c.Nulls.Set(row)
		c.Code = append(c.Code, own)
		return
	}
	c.Code = append(c.Code, c.Dict.Code(exe))
}

// stackOf returns the stack that was copied with an event.
func (s *Subscription) stackOf(e *event) any {
	k := e.copied
	copied := stack.Copied{
		PID: int(e.Pid), Time: int64(e.Time), Image: k.Image, Regs: k.Regs, Trampoline: k.Trampoline, Returned: k.Returned, ReturnAt: k.ReturnAt,
		Taken: e.taken, Stack: e.stack, Inside: e.label.inside,
	}
	value, why := s.Stacks.Of(&copied)
	if why != "" {
		if s.torn == nil {
			s.torn = map[string]uint64{}
		}
		s.torn[why]++
	}
	return value
}

// valueColumn returns the column of a value that has its own reading rules.
func valueColumn(v *calls.Value) rows.Column[event] {
	switch {
	case v.Printed():
		return printedColumn(v)
	case v.As == calls.AsDigits:
		var buffer []byte
		return rows.BytesOr(func(e *event) ([]byte, bool) {
			n, known := number(v, e)
			buffer = strconv.AppendUint(append(buffer[:0], "0x"...), n, 16)
			return buffer, known
		})
	case v.As == calls.AsSymbol:
		return rows.TextOr(func(e *event) (string, bool) {
			n, known := number(v, e)
			if !known {
				return "", false
			}
			return e.subscription.Stacks.Symbol(int(e.Pid), int64(e.Time), e.image, n)
		})
	case v.Text && !v.Packed:
		return rows.BytesOr(func(e *event) ([]byte, bool) { return e.texts.Text(v.Slot) })
	case v.T == types.Boolean:
		return rows.BoolOr(func(e *event) (bool, bool) { n, known := number(v, e); return n != 0, known })
	case v.T == types.Double:
		return rows.RealOr(func(e *event) (float64, bool) {
			n, known := number(v, e)
			switch v.Floats[e.function] {
			case 0:
				return float64(int64(n)), known // cast from a number without a fraction
			case 4:
				return float64(math.Float32frombits(uint32(n))), known
			}
			return math.Float64frombits(n), known
		})
	case v.T == types.Varchar:
		return rows.TextOr(func(e *event) (string, bool) {
			n, known := number(v, e)
			if !known {
				return "", false
			}
			return codegen.EnumName(v.Enums[e.function], int64(n)), true
		})
	}
	return rows.IntOr(func(e *event) (int64, bool) { n, known := number(v, e); return int64(n), known })
}

// printedColumn returns the column of a value whose bytes are printed: as hexadecimal
// digits, or as JSON by the shape of the object.
func printedColumn(v *calls.Value) rows.Column[event] {
	var buffer []byte
	return rows.BytesOr(func(e *event) ([]byte, bool) {
		read, known := e.texts.Text(v.Slot)
		switch {
		case !known:
			return nil, false
		case v.As == calls.AsHex:
			buffer = hex.AppendEncode(buffer[:0], read)
			return buffer, true
		case v.Shapes[e.function] == nil: // a text in this function
			return read, true
		}
		buffer = v.Shapes[e.function].AppendJSON(buffer[:0], read)
		return buffer, true
	})
}

// number returns a value of the event; false if the value could not be read.
func number(v *calls.Value, e *event) (n uint64, known bool) {
	if v.Packed {
		read, known := e.texts.Text(v.Slot)
		if !known {
			return 0, false
		}
		return binary.LittleEndian.Uint64(read), true
	}
	if e.Function>>(calls.FirstAbsent+v.Slot)&1 != 0 {
		return 0, false
	}
	if v.Slot == calls.RetvalSlot {
		return e.retval, true
	}
	return e.args[v.Slot], true
}

// nameOf is the inverse of ColumnByName. Every column has an appender.
var nameOf = func() map[calls.Column]string {
	m := map[calls.Column]string{calls.ColFrame: calls.FrameColumn}
	for name := range appenders {
		c, ok := calls.ColumnByName[name]
		if !ok {
			panic("uprobe: no column is called " + name)
		}
		m[c] = name
	}
	if len(m) != len(calls.ColumnByName) {
		panic("uprobe: a column is not made")
	}
	return m
}()
