package uprobe

import (
	"slices"
	"strconv"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/codegen"
	"endoscope/probes/uprobe/abi"
)

// column says what fills a column of a batch.
type column uint8

const (
	colUnread column = iota // no one reads it
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
const colValue = colArg0 + abi.MaxArgs

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
	for i := range abi.MaxArgs {
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
	values  *readings
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
	w := wants{cols: slices.Clone(cols), values: values}
	used := make([]bool, len(cols)) // of values
	switch spec.Stream {
	case catalog.FunctionEnd:
		w.options |= abi.AtReturn | abi.LateNames
	case catalog.FunctionDuration:
		w.options |= abi.AtReturn
	case catalog.FunctionCall:
		w.options |= abi.Sequence
	case catalog.Allocation:
		w.options |= abi.AtReturn | abi.UseDepth | abi.UseArgs | abi.Allocates
	case catalog.Deallocation:
		w.options |= abi.AtReturn | abi.UseDepth | abi.UseArgs | abi.Frees
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
			w.options |= abi.UseNames
			if send {
				w.options |= abi.SendNames
			}
		case c == colDepth:
			w.options |= abi.UseDepth
		case c == colSelf:
			w.options |= abi.UseDepth | abi.UseSelf
			if send {
				w.options |= abi.SendSelf
			}
		case c == colCaller && send:
			w.options |= abi.SendCaller
		case c == colStack && send:
			w.options |= abi.SendStack
		case c.ofReceiver():
			w.options |= abi.UseArgs | abi.SendReceiver
		case c.ofCost():
			w.options |= abi.SendCost
		case c == colFrame:
			w.options |= abi.SendFrame
		case c == colGoroutine:
			w.options |= abi.SendGoroutine
		case c.isArg():
			w.options |= abi.UseArgs
			if send {
				w.options |= abi.SendArgs
			}
		}
	}
	if w.options&(abi.UseValues|abi.UseResult) != 0 {
		w.reading = &reading{entry: values.reader(used, false), result: values.reader(used, true), textBytes: values.textBytes(used)}
	}
	return w
}

// frameColumn is a column of function_call for package entities, which users cannot
// name: the address of a call's return address (hush.h).
const frameColumn = "frame"

func hasColumn(stream, name string) bool {
	if name == frameColumn {
		return stream == catalog.FunctionCall
	}
	s := catalog.Find(stream)
	if s == nil {
		return false
	}
	_, ok := s.Column(name)
	return ok
}
