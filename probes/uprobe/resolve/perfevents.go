package resolve

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

const (
	// maxEvents bounds a query's perf events. The kernel detaches them one by one,
	// also those of a killed process. A query whose detaching would take minutes is
	// rejected.
	maxEvents = 1000
	// detachEvent is the time to detach one: 0.08 to 0.11 s on Linux 6.18.
	detachEvent = 100 * time.Millisecond
	// sayDetach is the detach time from which the user is notified.
	sayDetach = 2 * time.Second
	// spareDescriptors are reserved for the other files of the process.
	spareDescriptors = 64

	HintDescriptors = "choose functions by name, or raise the limit (ulimit -n) for this process"
)

// CheckEvents rejects a query that needs too many perf events, each with a file
// descriptor, and returns a notice if ending the query will take long. (The Go runtime
// has raised the soft limit of descriptors to the hard limit.)
func CheckEvents(spec *plan.Acquire, links attach.Kind, wants []calls.Function) (notice string, err error) {
	if links != attach.Perf {
		return "", nil
	}
	n := 0
	for _, w := range wants {
		n += w.Probes()
		if w.Returns == calls.Trapped {
			n++
		}
	}
	if n > maxEvents {
		return "", plan.Errorf(spec.Start, spec.Stop, "%d functions would take %d probes by perf events, which this kernel detaches one by one: at most %d may be", len(wants), n, maxEvents).
			WithHint("choose functions by name; SET probe_links = multi (Linux 6.6) has no such limit")
	}
	var limit unix.Rlimit
	open, errFDs := os.ReadDir("/proc/self/fd")
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && errFDs == nil {
		if spare := int(min(limit.Cur, 1<<30)) - len(open) - spareDescriptors; n > spare {
			return "", plan.Errorf(spec.Start, spec.Stop, "%d functions would take %d probes by perf events, and this process may open %d more files", len(wants), n, max(spare, 0)).
				WithHint("%s", HintDescriptors)
		}
	}
	if d := time.Duration(n) * detachEvent; d >= sayDetach {
		return fmt.Sprintf("ending the query takes about %s: its %d probes are perf events, which the kernel detaches one by one", d.Round(time.Second), n), nil
	}
	return "", nil
}
