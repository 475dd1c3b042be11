package sched

import (
	"context"
	"errors"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/process"
)

// Columns are all columns of each stream, the event's time first. Of a process'
// events tid and thread_name are those of its first thread, or of the one that
// executes or that ends last. A new process has its parent's name, executable and
// arguments until it executes a program of its own. exe is NULL where the kernel
// has let go of it: at ends, before Linux 6.16. argv is NULL if it cannot be read.
// Either exit_code or signal is NULL.
var Columns = map[string][]types.Field{
	ProcessStart: columns(types.Field{Name: "parent_tid", Type: types.Bigint}, argvField),
	ProcessExec:  columns(argvField),
	ProcessEnd:   columns(endFields...),
	ThreadStart:  columns(types.Field{Name: "parent_tid", Type: types.Bigint}),
	ThreadEnd:    columns(endFields...),
}

// threadsColumns are those of Threads.
var threadsColumns = columns(types.Field{Name: "event", Type: types.Varchar}, types.Field{Name: "started", Type: types.Timestamp}, types.Field{Name: "parent_tid", Type: types.Bigint})

var (
	argvField = types.Field{Name: "argv", Type: types.List}
	endFields = []types.Field{
		{Name: "exit_code", Type: types.Bigint},
		{Name: "signal", Type: types.Varchar},
		{Name: "duration", Type: types.Duration},
	}
)

func columns(own ...types.Field) []types.Field {
	return append([]types.Field{
		{Name: "timestamp", Type: types.Timestamp},
		{Name: "pid", Type: types.Bigint},
		{Name: "tid", Type: types.Bigint},
		{Name: "process", Type: types.Varchar},
		{Name: "thread_name", Type: types.Varchar},
		{Name: "exe", Type: types.Varchar},
		{Name: "parent_pid", Type: types.Bigint},
	}, own...)
}

// Provider observes the lives of processes and threads.
type Provider struct{ guessLast bool }

// New returns a provider. Nothing is loaded before a query needs it, and nothing
// is kept between queries.
func New() *Provider { return &Provider{} }

// Streams are those of this package.
func (*Provider) Streams() []string {
	return []string{ProcessStart, ProcessExec, ProcessEnd, ThreadStart, ThreadEnd}
}

// Close has nothing to free.
func (*Provider) Close() error { return nil }

// Prepare loads the programs, so that the kernel's refusals come before anything
// is attached.
func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	for _, want := range spec.Out.Fields {
		all := Columns[spec.Stream]
		if spec.Stream == Threads {
			all = threadsColumns
		}
		if i := (types.Schema{Fields: all}).Index(want.Name); i < 0 || all[i].Type != want.Type {
			return nil, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s of type %s", spec.Stream, want.Name, want.Type)
		}
	}
	if !process.Numbered() {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s cannot be acquired from within a PID namespace: the kernel's programs see other numbers of processes", spec.Stream).
			WithHint("run on the host, or in a container that has the host's PID namespace (--pid=host)")
	}
	if !spec.Target.Viewer.Everything() {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s tells of every process of the machine, which takes a user who may observe them all", spec.Stream).
			WithHint("process_usage and thread_usage show those that you may observe")
	}
	s := &source{spec: spec, targets: newTargets(spec), event: events[spec.Stream]}
	o := options{
		events:    s.event | s.targets.needs(),
		path:      spec.Out.Index("exe") >= 0 || len(spec.Target.Exes) > 0,
		argv:      spec.Out.Index("argv") >= 0,
		guessLast: p.guessLast,
	}
	var err error
	if s.kernel, err = load(o); err != nil {
		var e *plan.Error
		if errors.As(err, &e) && e.Start < 0 {
			e.Start, e.Stop = spec.Start, spec.Stop
		}
		return nil, err
	}
	return s, nil
}
