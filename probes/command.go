package probes

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnsupported is the cause of the error of Source.Control for a command that
// the source's Info does not promise.
var ErrUnsupported = errors.New("the source does not support the command")

// Command is what a source can be told while it runs. The commands are those of
// this file.
type Command interface{ command() }

// Divide cuts what a shared source gives into what was before and what is after.
// The source calls Begin and then Done, each between two calls of the sink. Rows
// tell by when their events began on which side they are: those of before may come
// after Begin, and none of after came before. Partial rows, losses and counts (but
// CountUnfinished) are of before until Done is called, and of after from then on;
// all rows of before have come by then, but of events that have not ended. A source
// that does not run calls neither, and one that ends or fails meanwhile may not
// call Done.
type Divide struct {
	Begin func(Cut)
	Done  func()
}

// CountUnfinished replies with how many events have not ended that began after one
// cut and before another; zero cuts: no matter when. It is given from calls of the
// sink and from the functions of Divide.
type CountUnfinished struct{ From, Until Cut }

// Collect gives the sink what has been aggregated of the events that happened
// before the call, and returns when it has. Sources whose spec has panes give each
// when it is over without being asked, as watermarks allow; of one that is collected
// before, the rest follows then. Stop collects, too.
type Collect struct{}

// Sample gives the sink the rows of the value at this moment, none if there is no
// value, before it returns. It is given by the goroutine that takes what the sink is
// given.
type Sample struct{}

// Suspend says that nothing is reported of what happens from now on: nowhere, or on
// threads of these names; neither: everything is reported. The source need not give
// meanwhile what only reports need.
type Suspend struct {
	All     bool
	Threads []string
}

// Resend has the source soon give again everything that there is. It may be given
// from calls of the sink.
type Resend struct{}

// Begin ends the standby of a source that was started with Options.Standby.
type Begin struct{}

// Detach takes the probes away and Attach puts them back, which both take tens of
// milliseconds. The stream goes on, without rows.
type (
	Detach struct{}
	Attach struct{}
)

// ProcessorTime replies with the processor time that the processes have used which
// the source observes: all that is seen of them while nothing is attached.
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

// Reply is what a command replies; most reply nothing.
type Reply struct {
	Unfinished uint64 // CountUnfinished
	// Used is of ProcessorTime. It is not Known if there are no processes, or if one
	// of those that were there at Prepare has ended.
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

// Unsupported is the answer of Control to a command that the source does not support.
func Unsupported(c Command) (Reply, error) { return Reply{}, fmt.Errorf("%T: %w", c, ErrUnsupported) }

// Cut is where a source is divided. The zero value is nowhere.
type Cut struct {
	At     int64  // event time
	Number uint64 // from 1
}
