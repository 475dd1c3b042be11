package stack

import (
	"cmp"
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// Provider samples stacks.
type Provider struct{ cache elf.Cache }

// New returns a provider. Nothing is loaded before a query needs it.
func New() *Provider { return &Provider{} }

// Streams returns the one stream of the provider.
func (p *Provider) Streams() []string { return []string{Stream} }

// Close releases the modules that were read.
func (p *Provider) Close() error { return p.cache.Close() }

// Prepare finds the processes and checks that they may be sampled.
func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	if err := cmp.Or(probes.RequireSampling(spec, "10ms"), probes.RequireProcess(spec)); err != nil {
		return nil, err
	}
	found, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, probes.AtStream(err, spec)
	}
	if err := checkRights(spec); err != nil {
		return nil, err
	}
	s := &source{provider: p, every: spec.Every, filter: spec.Filter, target: spec.Target, found: found, clock: clock.Now, spec: spec}
	s.notices = notices(found, spec.Settings.JavaStacks)
	if len(spec.Target.Processes)+len(spec.Target.Exes) == 0 {
		s.pinned = found
	}
	if s.rows, err = table.Writer(spec, clock.Offset()); err != nil {
		return nil, err
	}
	if spec.OnDemand {
		return &demand{source: s}, nil
	}
	return s, nil
}

// checkRights returns an error where the kernel would return EPERM, with a more
// helpful text.
func checkRights(spec *plan.Acquire) error {
	if err := process.RequireNumbered(spec); err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&hdr, &caps[0]); err != nil {
		return nil // leave the decision to the kernel
	}
	if missing := missingRights(uint64(caps[1].Effective)<<32 | uint64(caps[0].Effective)); missing != "" {
		return plan.Errorf(spec.Start, spec.Stop, "%s needs %s, which this process does not have", Stream, missing).
			WithHint("run as root; streams of /proc (thread_usage, process_usage) need no rights")
	}
	return nil
}

// missingRights names the capabilities for sampling threads that a set lacks.
func missingRights(effective uint64) string {
	var missing []string
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}, {unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"}} {
		if effective&(1<<c.bit) == 0 && (effective&(1<<unix.CAP_SYS_ADMIN) == 0 || c.bit == unix.CAP_SYS_PTRACE) {
			missing = append(missing, c.name)
		}
	}
	return strings.Join(missing, " and ")
}
