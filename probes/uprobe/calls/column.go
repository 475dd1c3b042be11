package calls

import (
	"slices"
	"strconv"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/uprobe/abi"
)

// Column is the source of a column of a batch.
type Column uint8

const (
	ColUnread Column = iota // not read
	ColTime
	ColPID
	ColTID
	ColProcess
	ColThread
	ColExe
	ColEvent
	ColFunction
	ColClass
	ColModule
	ColStart
	ColDuration
	ColSelf
	ColAddress
	ColSize
	ColCaller
	ColStack
	ColRetval
	ColDepth
	ColGoroutine
	ColContext
	ColContainer // first of the columns of the container
	ColCgroup
	ColPod
	ColNamespace
	ColLabels
	ColClassLineage // first of the columns filled by receivers
	ColMethodSize
	ColNative
	ColCPUTime // first of the columns of a call's cost
	ColReadBytes
	ColWrittenBytes
	ColReceiver // first of the columns that differ between the calls of a function
	ColReceiverClass
	ColReceiverLineage
	ColDistance
	ColFrame
	ColArg0 // and the MaxArgs-1 after it
)

// ColValue marks columns filled by reading rules, identified by the column's index.
const ColValue = ColArg0 + abi.MaxArgs

var ColumnByName = func() map[string]Column {
	m := map[string]Column{
		"timestamp": ColTime, "pid": ColPID, "tid": ColTID, "process": ColProcess, "thread_name": ColThread,
		"exe": ColExe, "event": ColEvent, "function_name": ColFunction, "class": ColClass, "module": ColModule,
		"start_time": ColStart, "duration": ColDuration, "self_time": ColSelf, "address": ColAddress, "size": ColSize, "caller": ColCaller, "stack": ColStack, "retval": ColRetval, "depth": ColDepth, "goroutine": ColGoroutine, "container": ColContainer, "cgroup": ColCgroup, "pod": ColPod, "namespace": ColNamespace, "labels": ColLabels,
		"receiver": ColReceiver, "receiver_class": ColReceiverClass, "receiver_lineage": ColReceiverLineage,
		"class_lineage": ColClassLineage, "lookup_distance": ColDistance, "method_size": ColMethodSize, "is_native": ColNative,
		"cpu_time": ColCPUTime, "read_bytes": ColReadBytes, "written_bytes": ColWrittenBytes,
	}
	m[FrameColumn] = ColFrame
	for i := range abi.MaxArgs {
		m["arg"+strconv.Itoa(i)] = ColArg0 + Column(i)
	}
	return m
}()

// IsReceiver reports whether the column describes the object of a call.
func (c Column) IsReceiver() bool { return ColReceiver <= c && c < ColFrame }

// IsContained reports whether the column is of the process' container.
func (c Column) IsContained() bool { return ColContainer <= c && c <= ColLabels }

// IsCost reports whether the column is a cost of a call.
func (c Column) IsCost() bool { return ColCPUTime <= c && c <= ColWrittenBytes }

// IsMethodColumn reports whether receivers fill the column.
func (c Column) IsMethodColumn() bool { return ColClassLineage <= c && c < ColFrame && !c.IsCost() }

// isArg reports whether the column is an argument register.
func (c Column) isArg() bool { return ColArg0 <= c && c < ColValue }

// Request is what a specification requires from the programs.
type Request struct {
	Cols    []Column // of the batches, in order
	Options uint32
	Values  *Values
	// Reading describes how values are read; nil if there are none.
	Reading *Reading
	// ContextWords is how many words of an event tell what it is inside of.
	ContextWords int
}

// ColumnsOf returns the columns of a specification; vs holds those that are values.
func ColumnsOf(spec *plan.Acquire, vs []*Value) ([]Column, error) {
	cols := make([]Column, len(spec.Out.Fields))
	for i, f := range spec.Out.Fields {
		if vs[i] != nil {
			cols[i] = ColValue
			continue
		}
		if spec.ReadsContext() && f.Name == spec.Context.Name {
			cols[i] = ColContext
			continue
		}
		c, ok := ColumnByName[f.Name]
		if !ok || !hasColumn(streamOf(spec), f.Name) && !hasColumn(spec.Stream, f.Name) {
			return nil, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s", spec.Stream, f.Name)
		}
		cols[i] = c
	}
	return cols, nil
}

// NewRequest collects what is required by the columns that are read and by the
// programs' own test. A column that only the kernel's part of the filter reads is not
// sent.
func NewRequest(spec *plan.Acquire, cols []Column, values *Values, test codegen.Program) Request {
	w := Request{Cols: slices.Clone(cols), Values: values}
	used := make([]bool, len(cols)) // of values
	switch spec.Stream {
	case catalog.FunctionEnd:
		w.Options |= abi.AtReturn | abi.LateNames
	case catalog.FunctionDuration:
		w.Options |= abi.AtReturn
	case catalog.FunctionCall:
		w.Options |= abi.Sequence
	case catalog.Allocation:
		w.Options |= abi.AtReturn | abi.UseDepth | abi.UseArgs | abi.Allocates
	case catalog.Deallocation:
		w.Options |= abi.AtReturn | abi.UseDepth | abi.UseArgs | abi.Frees
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
			w.Cols[i] = ColUnread
		}
		if !send && !test.Reads[i] {
			continue
		}
		switch {
		case c == ColValue:
			used[i] = true
			w.Options |= values.Columns[i].options(spec.Stream, send)
		case c == ColProcess || c == ColThread:
			recorded := spec.Settings.Recall > 0 // events are given names when they are recalled
			if !recorded || test.Reads[i] {
				w.Options |= abi.UseNames
			}
			if send && !recorded {
				w.Options |= abi.SendNames
			}
		case c == ColDepth:
			w.Options |= abi.UseDepth
		case c == ColSelf:
			w.Options |= abi.UseDepth | abi.UseSelf
			if send {
				w.Options |= abi.SendSelf
			}
		case c == ColCaller && send:
			w.Options |= abi.SendCaller
		case c == ColStack && send:
			w.Options |= abi.SendStack
		case c.IsReceiver():
			w.Options |= abi.UseArgs | abi.SendReceiver
		case c.IsCost():
			w.Options |= abi.SendCost
		case c == ColFrame:
			w.Options |= abi.SendFrame
		case c == ColGoroutine:
			w.Options |= abi.SendGoroutine
		case c == ColContext:
			w.ContextWords = contextWords(spec.Out.Fields[i].Type)
		case c.isArg():
			w.Options |= abi.UseArgs
			if send {
				w.Options |= abi.SendArgs
			}
		}
	}
	if w.Options&(abi.UseValues|abi.UseResult) != 0 {
		w.Reading = &Reading{entry: values.reader(used, false), result: values.reader(used, true), textBytes: values.textBytes(used)}
	}
	return w
}

// FrameColumn is a column of function_call for package entities, which users cannot
// name: the stack address of a call's return address (suspension.h).
const FrameColumn = "frame"

func hasColumn(stream, name string) bool {
	if name == FrameColumn {
		return stream == catalog.FunctionCall
	}
	s := catalog.Find(stream)
	if s == nil {
		return false
	}
	_, ok := s.Column(name)
	return ok
}

// ReadsArgs reports whether a query reads argument registers, even if only in its
// condition.
func ReadsArgs(out types.Schema) bool {
	return slices.ContainsFunc(out.Fields, func(f types.Field) bool {
		if v, ok := parseValue(f.Name); ok {
			return !v.Result
		}
		c, ok := ColumnByName[f.Name]
		return ok && c >= ColReceiver
	})
}

// ReadsOnlyArgs returns which argument registers a query reads, bit n for argN, if it reads
// nothing else that depends on arguments; else 0.
func ReadsOnlyArgs(out types.Schema) (args uint8) {
	for _, f := range out.Fields {
		c, ok := ColumnByName[f.Name]
		switch {
		case ok && c.isArg():
			args |= 1 << (c - ColArg0)
		case ReadsArgs(types.Schema{Fields: []types.Field{f}}):
			return 0
		}
	}
	return args
}

// Reads reports whether a query reads a column, even if only in its condition.
func Reads(out types.Schema, c Column) bool {
	return slices.ContainsFunc(out.Fields, func(f types.Field) bool { return ColumnByName[f.Name] == c })
}
