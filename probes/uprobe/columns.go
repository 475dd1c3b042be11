package uprobe

import (
	"slices"
	"strconv"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
)

// The streams of this package.
const (
	FunctionStart    = "function_start"
	FunctionEnd      = "function_end"
	FunctionDuration = "function_duration"
	FunctionCall     = "function_call"
)

// maxArgs is how many argument registers there are in the calling conventions.
const maxArgs = 6

// Columns are all columns of each stream, the event's time first.
//
// arg0 to arg5 are the raw integer argument registers at the entry (System V:
// rdi rsi rdx rcx r8 r9; Go: rax rbx rcx rdi rsi r8), whether or not the
// function has so many; retval is rax at the return. depth is the number of
// calls on the same thread that enclose this one, among the functions that the
// query monitors. function_duration's timestamp is the end; its process and
// thread_name are those at the beginning. function_call has them, and tid, so at
// each event of a call, and NULL for the function of a gap. goroutine says whose
// sequence the event is of; NULL: the thread's.
var Columns = map[string][]types.Field{
	FunctionStart:    columns(functionFields, argFields, depthField, containerField, objectFields, whenceFields),
	FunctionEnd:      columns(functionFields, retvalField, depthField, containerField, objectFields, whenceFields),
	FunctionDuration: columns(functionFields, durationFields, argFields, retvalField, depthField, containerField, selfField, objectFields, costFields, whenceFields),
	FunctionCall:     columns(eventField, functionFields, depthField, goroutineField, containerField, objectFields, whenceFields),
	Allocation:       columns(functionFields, memoryFields, whenceFields),
	Deallocation:     columns(functionFields, memoryFields, whenceFields),
}

var (
	functionFields = []types.Field{
		{Name: "function_name", Type: types.Varchar},
		{Name: "class", Type: types.Varchar},
		{Name: "module", Type: types.Varchar},
	}
	durationFields = []types.Field{
		{Name: "start_time", Type: types.Timestamp},
		{Name: "duration", Type: types.Duration},
	}
	// selfField is duration less that of the calls that this one made of functions
	// that the query monitors, on its thread or goroutine, whether or not they became
	// rows. The time of calls that did not return is their caller's; that of what they
	// had called is not.
	selfField   = []types.Field{{Name: "self_time", Type: types.Duration}}
	retvalField = []types.Field{{Name: "retval", Type: types.Bigint}}
	depthField  = []types.Field{{Name: "depth", Type: types.Bigint}}
	// containerField is where the process runs (process.Container).
	containerField = []types.Field{{Name: "container", Type: types.Varchar}}
	eventField     = []types.Field{{Name: "event", Type: types.Varchar}}
	// goroutineField says whose the events of a sequence are.
	goroutineField = []types.Field{{Name: "goroutine", Type: types.Bigint}}
	// costFields are what the call's thread used from its entry to its return:
	// CPU time, and bytes through read(2), write(2) and the like, sockets' only if
	// by these. NULL where the call returned on another thread, or the kernel does
	// not count bytes.
	costFields = []types.Field{
		{Name: "cpu_time", Type: types.Duration},
		{Name: "read_bytes", Type: types.Bigint},
		{Name: "written_bytes", Type: types.Bigint},
	}
	// whenceFields say where a call comes from: the function that it returns to, and
	// the stack at its entry, itself first, as stack_sample has it. NULL where the
	// address lies in no code, or none that has a name. Of a sequence each event of
	// a call has the caller, an ENTER and a LEAVE the stack.
	whenceFields = []types.Field{
		{Name: "caller", Type: types.Varchar},
		{Name: "stack", Type: types.List},
	}
	// objectFields say of a call what there is to know of its object and method
	// (receivers.go).
	objectFields = []types.Field{
		{Name: "receiver", Type: types.Bigint},
		{Name: "receiver_class", Type: types.Varchar},
		{Name: "receiver_lineage", Type: types.Varchar},
		{Name: "class_lineage", Type: types.Varchar},
		{Name: "lookup_distance", Type: types.Bigint},
		{Name: "method_size", Type: types.Bigint},
		{Name: "is_native", Type: types.Boolean},
	}
)

var argFields = func() []types.Field {
	fs := make([]types.Field, maxArgs)
	for i := range fs {
		fs[i] = types.Field{Name: "arg" + strconv.Itoa(i), Type: types.Bigint}
	}
	return fs
}()

func columns(own ...[]types.Field) []types.Field {
	fs := []types.Field{
		{Name: "timestamp", Type: types.Timestamp},
		{Name: "pid", Type: types.Bigint},
		{Name: "tid", Type: types.Bigint},
		{Name: "process", Type: types.Varchar},
		{Name: "thread_name", Type: types.Varchar},
		{Name: "exe", Type: types.Varchar},
	}
	for _, o := range own {
		fs = append(fs, o...)
	}
	return fs
}

// column says what fills a column of a batch.
type column uint8

const (
	colUnread column = iota // nobody looks at it
	colTime
	colPID
	colTID
	colProcess
	colThread
	colExe
	colEvent
	colFunction
	colClass
	colModule
	colStart
	colDuration
	colSelf
	colAddress
	colSize
	colCaller
	colStack
	colRetval
	colDepth
	colGoroutine
	colContainer
	colClassLineage // first of what receivers tell
	colMethodSize
	colNative
	colCPUTime // first of what calls cost
	colReadBytes
	colWrittenBytes
	colReceiver // first of what is not the same for all calls of a function
	colReceiverClass
	colReceiverLineage
	colDistance
	colFrame
	colArg0 // and the maxArgs-1 after it
)

// colValue is what readings tell, by the column's index.
const colValue = colArg0 + maxArgs

var columnByName = func() map[string]column {
	m := map[string]column{
		"timestamp": colTime, "pid": colPID, "tid": colTID, "process": colProcess, "thread_name": colThread,
		"exe": colExe, "event": colEvent, "function_name": colFunction, "class": colClass, "module": colModule,
		"start_time": colStart, "duration": colDuration, "self_time": colSelf, "address": colAddress, "size": colSize, "caller": colCaller, "stack": colStack, "retval": colRetval, "depth": colDepth, "goroutine": colGoroutine, "container": colContainer,
		"receiver": colReceiver, "receiver_class": colReceiverClass, "receiver_lineage": colReceiverLineage,
		"class_lineage": colClassLineage, "lookup_distance": colDistance, "method_size": colMethodSize, "is_native": colNative,
		"cpu_time": colCPUTime, "read_bytes": colReadBytes, "written_bytes": colWrittenBytes,
	}
	m[frameColumn] = colFrame
	for i := range maxArgs {
		m["arg"+strconv.Itoa(i)] = colArg0 + column(i)
	}
	return m
}()

// ofReceiver reports whether the column is about the object of a call.
func (c column) ofReceiver() bool { return colReceiver <= c && c < colFrame }

// ofCost reports whether the column is about what a call has cost.
func (c column) ofCost() bool { return colCPUTime <= c && c <= colWrittenBytes }

// aboutMethods reports whether the column is told by receivers.
func (c column) aboutMethods() bool { return colClassLineage <= c && c < colFrame && !c.ofCost() }

// isArg reports whether the column is an argument register.
func (c column) isArg() bool { return colArg0 <= c && c < colValue }

// wants is what a specification asks of the programs.
type wants struct {
	cols    []column // of the batches, in order
	options uint32
	// reading is how values are read; nil: there are none.
	reading *reading
}

// columnsOf finds the columns of a specification, vs those of them that are values.
func columnsOf(spec *plan.Acquire, vs []*readValue) ([]column, error) {
	cols := make([]column, len(spec.Out.Fields))
	for i, f := range spec.Out.Fields {
		if vs[i] != nil {
			cols[i] = colValue
			continue
		}
		c, ok := columnByName[f.Name]
		if !ok || !hasColumn(spec.Stream, f.Name) {
			return nil, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s", spec.Stream, f.Name)
		}
		cols[i] = c
	}
	return cols, nil
}

// wantsOf adds up what is asked by the columns that are read, and by the
// programs' own test. A column that only the filter reads, and of that only
// what the kernel tests, is not sent.
func wantsOf(spec *plan.Acquire, cols []column, values *readings, test codegen.Program) wants {
	w := wants{cols: slices.Clone(cols)}
	used := make([]bool, len(cols)) // of values
	switch spec.Stream {
	case FunctionEnd:
		w.options |= atReturn | lateNames
	case FunctionDuration:
		w.options |= atReturn
	case FunctionCall:
		w.options |= sequence
	case Allocation:
		w.options |= atReturn | useDepth | useArgs | allocates
	case Deallocation:
		w.options |= atReturn | useDepth | useArgs | frees
	}
	read := make([]bool, len(cols))
	for i := range cols {
		read[i] = !slices.Contains(spec.FilterOnly, i)
	}
	plan.Walk(test.Residual, func(e plan.Expr) {
		if c, ok := e.(*plan.Col); ok {
			read[c.Index] = true
		}
	})
	for i, c := range cols {
		send := read[i] || i == spec.Out.Time
		if !send {
			w.cols[i] = colUnread
		}
		if !send && !test.Reads[i] {
			continue
		}
		switch {
		case c == colValue:
			used[i] = true
			w.options |= values.columns[i].options(spec.Stream, send)
		case c == colProcess || c == colThread:
			w.options |= useNames
			if send {
				w.options |= sendNames
			}
		case c == colDepth:
			w.options |= useDepth
		case c == colSelf:
			w.options |= useDepth | useSelf
			if send {
				w.options |= sendSelf
			}
		case c == colCaller && send:
			w.options |= sendCaller
		case c == colStack && send:
			w.options |= sendStack
		case c.ofReceiver():
			w.options |= useArgs | sendReceiver
		case c.ofCost():
			w.options |= sendCost
		case c == colFrame:
			w.options |= sendFrame
		case c == colGoroutine:
			w.options |= sendGoroutine
		case c.isArg():
			w.options |= useArgs
			if send {
				w.options |= sendArgs
			}
		}
	}
	if w.options&(useValues|useResult) != 0 {
		w.reading = &reading{entry: values.reader(used, false), result: values.reader(used, true), textBytes: values.textBytes(used)}
	}
	return w
}

// frameColumn is a column of function_call that no user asks for, but package
// entities: the address of a call's return address (hush.h).
const frameColumn = "frame"

func hasColumn(stream, name string) bool {
	if name == frameColumn {
		return stream == FunctionCall
	}
	for _, f := range Columns[stream] {
		if f.Name == name {
			return true
		}
	}
	return false
}
