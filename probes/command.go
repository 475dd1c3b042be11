package probes

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnsupported is the cause of the error of Source.Control for a command that
// the source's Info does not promise.
var ErrUnsupported = errors.New("the source does not support the command")

// Command controls a running source. This file declares all commands.
type Command interface{ command() }

// Divide separates the output of a shared source into rows before and after a
// cut. The source calls Begin and then Done, each between two calls of the
// sink. The begin time of a row's event decides its side: rows of before may
// come after Begin, and none of after comes before Begin. Partial rows, losses
// and counts (but CountUnfinished) belong to before until Done is called, and
// to after from then on; by then all rows of before have come, except those of
// unfinished events. A source that does not run calls neither, and one that
// ends or fails meanwhile may not call Done.
type Divide struct {
	Begin func(Cut)
	Done  func()
}

// CountUnfinished returns the number of unfinished events that began after one
// cut and before another; zero cuts mean any time. It may be sent from calls of
// the sink and from the functions of Divide.
type CountUnfinished struct{ From, Until Cut }

// Collect pushes to the sink what was aggregated of the events before the call,
// and returns when done. A source whose spec has panes pushes each pane without
// being asked when it is over, as watermarks allow; of a pane collected before
// its end, the rest follows then. Stop collects, too.
type Collect struct{}

// Sample pushes the rows of the current value, if any, before it returns. It is
// sent by the goroutine that receives from the sink.
type Sample struct{}

// Suspend stops reporting of events from now on: of all, or on threads of these
// names; with neither set, reporting resumes. Meanwhile the source may omit
// everything that is only needed for reports.
type Suspend struct {
	All     bool
	Threads []string
}

// Resend makes the source push its complete state again soon. It may be sent
// from calls of the sink.
type Resend struct{}

// Begin ends the standby of a source started with Options.Standby.
type Begin struct{}

// Detach removes the probes and Attach restores them; both take tens of
// milliseconds. The stream continues, without rows in between.
type (
	Detach struct{}
	Attach struct{}
)

// ProcessorTime returns the processor time used by the observed processes, the
// only thing known about them while the probes are detached.
type ProcessorTime struct{}

func (Divide) command()          {}
func (CountUnfinished) command() {}
func (Collect) command()         {}
func (Sample) command()          {}
func (Suspend) command()         {}
func (Resend) command()          {}
func (Begin) command()           {}
func (Detach) command()          {}
func (Attach) command()          {}
func (ProcessorTime) command()   {}

// Reply is the result of a command; most have none.
type Reply struct {
	Unfinished uint64 // CountUnfinished
	// Used is the result of ProcessorTime. It is not Known if there are no
	// processes, or if one of those present at Prepare has ended.
	Used  time.Duration
	Known bool
}

// Supports reports whether a source with this Info supports a command.
func (i *Info) Supports(c Command) bool {
	switch c.(type) {
	case Divide, CountUnfinished:
		return i.Identity != ""
	case Collect:
		return i.Aggregates
	case Sample:
		return i.OnDemand
	case Suspend:
		return i.Suspends
	case Resend:
		return i.Resends
	case Begin:
		return i.Standby
	case Detach, Attach, ProcessorTime:
		return i.Detaches
	}
	return false
}

// Unsupported returns Control's result for a command that the source does not
// support.
func Unsupported(c Command) (Reply, error) { return Reply{}, fmt.Errorf("%T: %w", c, ErrUnsupported) }

// Cut is a position at which a source is divided. The zero value is no
// position.
type Cut struct {
	At     int64  // event time
	Number uint64 // from 1
	// Unobserved is the number of child processes that run then and are not observed.
	Unobserved uint64
}
