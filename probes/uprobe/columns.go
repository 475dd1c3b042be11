package uprobe

import (
	"strconv"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// The streams of this package.
const (
	FunctionStart    = "function_start"
	FunctionEnd      = "function_end"
	FunctionDuration = "function_duration"
)

// maxArgs is how many argument registers there are in the calling conventions.
const maxArgs = 6

// Columns are all columns of each stream, the event's time first.
//
// arg0 to arg5 are the raw integer argument registers at the entry (System V:
// rdi rsi rdx rcx r8 r9; Go: rax rbx rcx rdi rsi r8), whether or not the
// function has so many; retval is rax at the return. depth is the number of
// calls on the same thread that enclose this one, among the functions that the
// query monitors. function_duration's timestamp is the end.
var Columns = map[string][]plan.Field{
	FunctionStart:    columns(argFields, []plan.Field{{Name: "depth", Type: batch.Bigint}}),
	FunctionEnd:      columns([]plan.Field{{Name: "retval", Type: batch.Bigint}, {Name: "depth", Type: batch.Bigint}}),
	FunctionDuration: columns(durationFields, argFields, []plan.Field{{Name: "retval", Type: batch.Bigint}, {Name: "depth", Type: batch.Bigint}}),
}

var durationFields = []plan.Field{
	{Name: "start_time", Type: batch.Timestamp},
	{Name: "duration", Type: batch.Duration},
}

var argFields = func() []plan.Field {
	fs := make([]plan.Field, maxArgs)
	for i := range fs {
		fs[i] = plan.Field{Name: "arg" + strconv.Itoa(i), Type: batch.Bigint}
	}
	return fs
}()

func columns(own ...[]plan.Field) []plan.Field {
	fs := []plan.Field{
		{Name: "timestamp", Type: batch.Timestamp},
		{Name: "pid", Type: batch.Bigint},
		{Name: "tid", Type: batch.Bigint},
		{Name: "process", Type: batch.Varchar},
		{Name: "thread_name", Type: batch.Varchar},
		{Name: "exe", Type: batch.Varchar},
		{Name: "function_name", Type: batch.Varchar},
		{Name: "class", Type: batch.Varchar},
		{Name: "module", Type: batch.Varchar},
	}
	for _, o := range own {
		fs = append(fs, o...)
	}
	return fs
}

// column says what fills a column of a batch.
type column uint8

const (
	colTime column = iota
	colPID
	colTID
	colProcess
	colThread
	colExe
	colFunction
	colClass
	colModule
	colStart
	colDuration
	colRetval
	colDepth
	colArg0 // and the maxArgs-1 after it
)

var columnByName = func() map[string]column {
	m := map[string]column{
		"timestamp": colTime, "pid": colPID, "tid": colTID, "process": colProcess, "thread_name": colThread,
		"exe": colExe, "function_name": colFunction, "class": colClass, "module": colModule,
		"start_time": colStart, "duration": colDuration, "retval": colRetval, "depth": colDepth,
	}
	for i := range maxArgs {
		m["arg"+strconv.Itoa(i)] = colArg0 + column(i)
	}
	return m
}()

// wants is what the columns of a specification ask of the probes.
type wants struct {
	cols  []column // of the batches, in order
	flags uint32   // of bpf.FunctionConfig
	depth bool
}

func wantsOf(spec *plan.Acquire) (wants, error) {
	w := wants{cols: make([]column, len(spec.Out.Fields)), flags: wantEntry}
	if spec.Stream != FunctionStart {
		w.flags = wantReturn
	}
	for i, f := range spec.Out.Fields {
		c, ok := columnByName[f.Name]
		if !ok || !hasColumn(spec.Stream, f.Name) {
			return wants{}, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s", spec.Stream, f.Name)
		}
		w.cols[i] = c
		switch {
		case c == colProcess || c == colThread:
			w.flags |= wantNames
		case c == colDepth:
			w.depth = true
		case c >= colArg0:
			w.flags |= wantArgs
		}
	}
	return w, nil
}

func hasColumn(stream, name string) bool {
	for _, f := range Columns[stream] {
		if f.Name == name {
			return true
		}
	}
	return false
}
