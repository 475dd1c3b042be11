package uprobe

import (
	"fmt"
	"os"
	"time"

	"endoscope/planner/plan"

	"golang.org/x/sys/unix"
)

// linkKind is a way to attach a query's programs, which are the same in each.
type linkKind uint8

// Kinds of link, the best first. All can be asked for (SET probe_links).
const (
	// linkSession: one link for all sites of a module; returns in one program
	// with entries, and trapped only for calls that it wants.
	linkSession linkKind = iota
	// linkMulti: one link for all sites, two where returns are observed. The
	// kernel traps every call's return.
	linkMulti
	// linkPerf: as linkMulti, but a perf event and a link for every single
	// site, which the kernel detaches one after the other.
	linkPerf
)

func (k linkKind) String() string {
	switch k {
	case linkSession:
		return "session"
	case linkMulti:
		return "multi"
	}
	return "perf"
}

// needs is what the kernel must have for links of that kind.
func (k linkKind) needs() feature {
	switch k {
	case linkSession:
		return featureSession
	case linkMulti:
		return featureMulti
	}
	return featurePerf
}

// attachType is the kernel's name of a link to entries, or to returns alone.
func (k linkKind) attachType() uint32 {
	if k == linkPerf {
		return attachPerf
	}
	return attachMulti
}

// scopesProcess reports whether such a link can be restricted to a process, so
// that others pay nothing.
func (k linkKind) scopesProcess() bool { return k != linkPerf && featureProcess.has() }

// linksFor is how spec's probes are attached.
func (p *Provider) linksFor(spec *plan.Acquire) (linkKind, error) {
	wanted := spec.Settings.ProbeLinks
	if wanted == "" || wanted == "auto" {
		wanted = p.o.Links
	}
	return chooseLinks(spec, wanted, func(k linkKind) bool { return k.needs().has() })
}

// chooseLinks is the kind that is wanted, or without a wish the best one.
func chooseLinks(spec *plan.Acquire, wanted string, has func(linkKind) bool) (linkKind, error) {
	for k := linkSession; k <= linkPerf; k++ {
		if wanted != "" && wanted != k.String() || wanted == "" && !has(k) {
			continue
		}
		if !has(k) {
			f := k.needs()
			return 0, plan.Errorf(spec.Start, spec.Stop, "this kernel has no %s, which came with Linux %s", f.name, f.since).
				WithHint("SET probe_links = auto takes what the kernel has")
		}
		return k, nil
	}
	if wanted != "" {
		return 0, plan.Errorf(spec.Start, spec.Stop, "there are no links of the kind %s", wanted)
	}
	return 0, plan.Errorf(spec.Start, spec.Stop, "%s needs Linux %s or newer: this kernel has no %s", spec.Stream, featurePerf.since, featurePerf.name)
}

const (
	// maxEvents bounds a query's perf events. The kernel detaches them one by
	// one, also those of a process that was killed: what is beyond some minutes
	// is better refused.
	maxEvents = 1000
	// detachEvent is what each takes: 0.08 to 0.11 s on Linux 6.18.
	detachEvent = 100 * time.Millisecond
	// sayDetach is from where on a user should know.
	sayDetach = 2 * time.Second
	// spareDescriptors are left for all else that the process opens.
	spareDescriptors = 64

	hintDescriptors = "choose functions by name, or raise the limit (ulimit -n) for this process"
)

// checkEvents refuses what would take too many perf events, each with a file
// descriptor, and says where ending the query will take long. (The Go runtime
// has raised the limit of descriptors as far as that goes.)
func checkEvents(spec *plan.Acquire, links linkKind, wants []want) (notice string, err error) {
	if links != linkPerf {
		return "", nil
	}
	n := 0
	for _, w := range wants {
		n += w.probes()
		if w.returns == trapped {
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
				WithHint("%s", hintDescriptors)
		}
	}
	if d := time.Duration(n) * detachEvent; d >= sayDetach {
		return fmt.Sprintf("ending the query takes about %s: its %d probes are perf events, which the kernel detaches one by one", d.Round(time.Second), n), nil
	}
	return "", nil
}
