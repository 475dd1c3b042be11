package procfs

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/process"

	"golang.org/x/sys/unix"
)

// DefaultRateWindow is the rate window unless the session sets one. The kernel
// counts CPU time in 10 ms: rates over less than two of them are noise.
const DefaultRateWindow = 100 * time.Millisecond

// Provider reads /proc.
type Provider struct{ clock func() int64 }

// New returns a provider.
func New() *Provider { return &Provider{clock: clock.Now} }

// Streams implements probes.Provider.
func (p *Provider) Streams() []string { return slices.Sorted(maps.Keys(tables)) }

// Close implements probes.Provider; there is nothing to free.
func (p *Provider) Close() error { return nil }

// sampler reads one stream. sample takes a reading at time at and emits its
// rows; the first reading is the base of later rates.
type sampler interface {
	sample(at int64, out *output) error
	close()
}

// Prepare checks that spec can be sampled and measures the cost of a sample.
func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	if _, ok := tables[spec.Stream]; !ok {
		return nil, plan.Errorf(spec.Start, spec.Stop, "there is no stream %s in /proc", spec.Stream)
	}
	if err := probes.RequireSampling(spec, "100ms"); err != nil {
		return nil, err
	}
	rateWindow := spec.Settings.RateWindow
	if rateWindow == 0 {
		rateWindow = DefaultRateWindow
	}
	every := spec.Every
	if spec.OnDemand {
		every = rateWindow / 2
	}
	s := &source{filter: spec.Filter, clock: p.clock, every: every, window: newWindow(every, rateWindow)}
	var err error
	if s.rows, err = newOutput(spec); err != nil {
		return nil, probes.AtStream(err, spec)
	}
	if err := s.choose(spec); err != nil {
		return nil, probes.AtStream(err, spec)
	}
	if err := s.calibrate(spec.Stream); err != nil {
		return nil, probes.AtStream(err, spec)
	}
	if spec.OnDemand {
		return &demand{source: s}, nil
	}
	return s, nil
}

// choose selects the sampler for spec.
func (s *source) choose(spec *plan.Acquire) error {
	w := s.window
	s.warmup = w.warmup(s.every)
	switch spec.Stream {
	case "cpu_usage", "cpu_core_usage":
		s.files = "/proc/stat"
		s.make = func() sampler { return newCPUSampler(w, spec.Stream == "cpu_core_usage") }
	case "memory_usage":
		s.files, s.warmup, s.gauge = "/proc/meminfo", 1, true
		s.make = func() sampler { return newMemorySampler() }
	case "disk_usage":
		s.files = "/proc/diskstats"
		s.make = func() sampler { return newDiskSampler(w) }
	case "network_usage":
		s.files = "/proc/net/dev"
		s.make = func() sampler { return newNetworkSampler(w) }
	case "pressure":
		s.files = "/proc/pressure"
		s.make = func() sampler { return newPressureSampler(w) }
	case "process_usage", "thread_usage":
		return s.chooseProcesses(spec)
	}
	return nil
}

func (s *source) chooseProcesses(spec *plan.Acquire) error {
	if err := probes.RequireProcess(spec); err != nil {
		return err
	}
	found, err := process.Resolve(spec.Target)
	if err != nil {
		return err
	}
	if !spec.Target.Grows() {
		s.pinned = found
	}
	s.follows = spec.Target.Follow
	observe := func(gone func(*observed)) *targets {
		s.targets = newTargets(spec.Target, found, gone)
		return s.targets
	}
	if spec.Stream == "thread_usage" {
		s.files = "/proc/PID/task/TID/stat"
		if s.rows.wants(threadCPU) || s.rows.wants(threadRunDelay) {
			s.files += ", schedstat"
		} else {
			s.warmup, s.gauge = 1, true
		}
		s.make = func() sampler { return newThreadSampler(s.window, observe, s.rows) }
		return nil
	}
	s.files = "/proc/PID/stat"
	for _, f := range []struct {
		column int
		name   string
	}{{processOpenFiles, "fd"}, {processReadBytes, "io"}, {processWriteBytes, "io"},
		{processVoluntary, "task/TID/status"}, {processInvoluntary, "task/TID/status"}} {
		if s.rows.wants(f.column) && !strings.HasSuffix(s.files, f.name) {
			s.files += ", " + f.name
		}
	}
	if !s.rows.wants(processCPU) {
		s.warmup, s.gauge = 1, true
	}
	s.make = func() sampler { return newProcessSampler(s.window, observe, s.rows) }
	return nil
}

// calibrate takes a few samples, whose rows are dropped.
func (s *source) calibrate(stream string) error {
	began := time.Now()
	sampler := s.make()
	defer sampler.close()
	first, best := time.Duration(0), time.Duration(1<<63-1)
	for range 4 {
		start := time.Now()
		if err := sampler.sample(s.clock(), s.rows); err != nil {
			return unreadable(stream, s.files, err)
		}
		best = min(best, time.Since(start))
		if first == 0 {
			first = time.Since(began)
		}
	}
	s.cost = best
	if _, ok := sampler.(keepsFiles); !ok {
		s.begin = max(0, first-best)
	}
	if s.rows.denied > 0 {
		s.notices = append(s.notices, "columns from /proc/PID/io and /proc/PID/fd are NULL for processes of other users: CAP_SYS_PTRACE is missing")
		s.rows.denied = 0
	}
	return nil
}

// unreadable returns the error for files of /proc that cannot be read.
func unreadable(stream, files string, err error) error {
	e := plan.Errorf(-1, -1, "%s cannot be read from %s: %v", stream, files, err)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EOPNOTSUPP):
		if stream == "pressure" {
			return plan.Errorf(-1, -1, "this kernel does not measure pressure").WithHint("boot it with psi=1")
		}
		return plan.Errorf(-1, -1, "this system has no %s", files)
	case errors.Is(err, fs.ErrPermission):
		return plan.Errorf(-1, -1, "%s cannot be read: permission denied", files)
	}
	return e
}
