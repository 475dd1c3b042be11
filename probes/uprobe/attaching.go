package uprobe

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// attachAll attaches the probes of s, with one link for each module, restricted process
// and way of observing returns.
func (p *Provider) attachAll(s *source, in *program.Installation) error {
	if err := p.attachThreadEnd(s, in); err != nil {
		return err
	}
	return p.attachFrom(s, in, 0, 0, 0)
}

// attachThreadEnd attaches the program that ends a sequence with its thread, if one is needed.
func (p *Provider) attachThreadEnd(s *source, in *program.Installation) error {
	if name := program.ThreadEnd(s.wants.Options, s.resolution.ReturnKinds()); name != "" {
		l, err := attach.Tracepoint(in.Objects.Programs[name], "sched_process_exit")
		if err != nil {
			return plan.Errorf(s.spec.Start, s.spec.Stop, "the kernel refuses to report ends of threads: %v", err)
		}
		in.Links = append(in.Links, l)
	}
	return nil
}

// attachFrom is attachAll for wants and landmarks from these indexes on, and for
// landmarks, which are probed one by one. If pid is not 0, it attaches only probes
// restricted to that process.
func (p *Provider) attachFrom(s *source, in *program.Installation, from, landmarks, pid int) error {
	var which []int
	for k, w := range s.resolution.Functions[from:] {
		if i := from + k; s.part.has(i) && (pid == 0 || w.Scope.PID == pid) {
			which = append(which, i)
		}
	}
	for _, g := range s.resolution.Landmarks[landmarks:] {
		if s.part != nil && s.part.sliced {
			break // calls in slices that are left without returning are censored
		}
		if pid != 0 && g.Scope.PID != pid || g.Module.Written {
			continue
		}
		if err := p.lease(s, in, g.Module); err != nil {
			return err
		}
		l, err := attach.Uprobes(in.Objects.Programs[g.Program], g.Module.File, s.links.AttachType(), 0, g.Scope.PID, attach.Places{Offsets: []uint64{g.Site.Offset}, Cookies: []uint64{g.Cookie}})
		if err != nil {
			return plan.Errorf(s.spec.Start, s.spec.Stop, "the kernel refuses to probe %s in %s: %v", g.Function, g.Module.Name(), err)
		}
		l.File = g.Module.ID
		in.Links = append(in.Links, l)
	}
	for _, group := range s.groups(which) {
		if err := p.lease(s, in, s.resolution.Functions[group[0]].Module); err != nil {
			return err
		}
		links, err := p.attachMost(s, in, group)
		if err != nil {
			return err
		}
		// Links are closed in reverse order of attachment.
		in.Links = append(links, in.Links...)
	}
	return nil
}

// groups divides functions by what a link is for: a module, a restricted process and a way of
// observing returns. Functions refused or overwritten at an earlier attachment are left out.
func (s *source) groups(which []int) (groups [][]int) {
	type link struct {
		module  *selection.Module
		pid     int
		returns calls.Returns
	}
	at := map[link]int{}
	for _, i := range which {
		w := &s.resolution.Functions[i]
		if w.Refused || w.Module.Written {
			continue
		}
		l := link{w.Module, w.Scope.PID, w.Returns}
		k, known := at[l]
		if !known {
			k = len(groups)
			at[l], groups = k, append(groups, nil)
		}
		groups[k] = append(groups[k], i)
	}
	return groups
}

// maxRefused is how many functions of one module the kernel may refuse before the query
// fails.
const maxRefused = 16

// attachMost is attach, but skips functions that the kernel refuses although their code
// gave no reason to expect it: kernels differ in the instructions they can decode. The
// skipped functions are listed in a notice.
func (p *Provider) attachMost(s *source, in *program.Installation, which []int) ([]*attach.Link, error) {
	var left []resolve.Skipped
	for {
		links, err := p.attach(s, in, which)
		if err == nil {
			if len(left) > 0 {
				s.resolution.Notices = append(s.resolution.Notices, resolve.NotMonitored(left))
			}
			return links, nil
		}
		if len(which) == 1 || len(left) == maxRefused || !ofInstruction(err) {
			return nil, p.refuseAttach(s, in, err, which)
		}
		i, reason := p.refusedOf(s, in, err, which)
		if i < 0 || !ofInstruction(reason) {
			return nil, p.refuseAttach(s, in, err, which)
		}
		w := &s.resolution.Functions[which[i]]
		w.Refused = true
		left = append(left, resolve.Skipped{Name: w.Label.Function, Reason: fmt.Sprintf("the kernel refuses to probe it: %v", reason)})
		left = append(left, p.withdraw(s, in, which[i])...)
		which = slices.Delete(slices.Clone(which), i, i+1)
	}
}

// attach attaches probes of one module, scope and way of observing returns; which
// contains indexes of wants.
func (p *Provider) attach(s *source, in *program.Installation, which []int) ([]*attach.Link, error) {
	first := s.resolution.Functions[which[0]]
	var links []*attach.Link
	for _, a := range program.ProgramsOf(s.links, first.Returns) {
		if s.stage.skips(a.Exits) {
			continue
		}
		var at attach.Places
		var owners []int // for each offset, its index in which
		add := func(n int, offset, cookie, semaphore uint64) {
			if semaphore != 0 && at.Semaphores == nil {
				at.Semaphores = make([]uint64, len(at.Offsets))
			}
			if at.Semaphores != nil {
				at.Semaphores = append(at.Semaphores, semaphore)
			}
			at.Offsets, at.Cookies, owners = append(at.Offsets, offset), append(at.Cookies, cookie), append(owners, n)
		}
		for n, i := range which {
			w := s.resolution.Functions[i]
			if !a.Exits {
				add(n, w.Site.Offset, s.cookie(i)|in.Generation(i), w.Semaphore())
				continue
			}
			for _, x := range w.Exits {
				add(n, x.Offset, calls.ExitCookie(i, w, x), 0)
			}
		}
		if len(at.Offsets) == 0 { // functions that never return
			continue
		}
		l, err := attach.Uprobes(in.Objects.Programs[a.Program], first.Module.File, a.AttachType, a.Flags, first.Scope.PID, at)
		if err != nil {
			attach.CloseAll(links)
			var one *attach.SiteError
			if errors.As(err, &one) {
				err = &attach.SiteError{Index: owners[one.Index], Err: one.Err}
			}
			return nil, err
		}
		l.File = first.Module.ID
		links = append([]*attach.Link{l}, links...)
	}
	return links, nil
}

// refuseAttach converts the kernel's error to an error for the user.
func (p *Provider) refuseAttach(s *source, in *program.Installation, err error, which []int) error {
	start, stop := s.spec.Start, s.spec.Stop
	first := s.resolution.Functions[which[0]]
	switch name := first.Module.Name(); {
	case errors.Is(err, unix.ESRCH):
		return selection.RefuseTarget(s.spec.Target, "process %d has ended", first.Scope.PID)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return plan.Errorf(start, stop, "the kernel does not allow probes in %s", name).WithHint("run as root")
	case errors.Is(err, unix.ENOMEM):
		return plan.Errorf(start, stop, "there is not enough memory for %d probes", len(which))
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return plan.Errorf(start, stop, "there are not enough file descriptors for %d probes: %v", len(which), err).WithHint("%s", resolve.HintDescriptors)
	}
	i, reason := p.refusedOf(s, in, err, which)
	if i < 0 {
		return plan.Errorf(start, stop, "the kernel refuses to attach %d probes in %s: %v", len(which), first.Module.Name(), err)
	}
	return plan.Errorf(start, stop, "the kernel refuses to probe %s in %s: %v", s.resolution.Functions[which[i]].Label.Function, first.Module.Name(), reason).
		WithHint("leave it out of the functions selected")
}

// refusedOf returns the index in which of the function that failed, and the kernel's
// error; -1 if no single function failed.
func (p *Provider) refusedOf(s *source, in *program.Installation, err error, which []int) (int, error) {
	var one *attach.SiteError
	if errors.As(err, &one) {
		return one.Index, one.Err
	}
	return attach.RefusedSite(func(lo, hi int) error {
		links, err := p.attach(s, in, which[lo:hi])
		attach.CloseAll(links)
		return err
	}, len(which))
}

// ofInstruction reports whether the kernel's error may mean an instruction that it
// cannot decode, step or emulate (uprobe_init_insn in arch/x86/kernel/uprobes.c).
func ofInstruction(err error) bool {
	const notSupported = unix.Errno(524) // ENOTSUPP, internal to the kernel
	for _, e := range []error{unix.ENOEXEC, notSupported, unix.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// withdraw removes the functions inferred from want i, which is not probed after all,
// and returns them with the reason.
func (p *Provider) withdraw(s *source, in *program.Installation, i int) (left []resolve.Skipped) {
	r := s.resolution
	for k := range r.Inferred {
		f := &r.Inferred[k]
		if f.Withdrawn || !slices.ContainsFunc(f.Sum, func(t calls.Summand) bool { return t.Want == i }) {
			continue
		}
		f.Withdrawn = true
		left = append(left, resolve.Skipped{Name: f.Label.Function, Reason: "it would be inferred from " + r.Functions[i].Label.Function + ", which is not monitored"})
	}
	if left == nil {
		return nil
	}
	if a := in.Aggregator; a != nil {
		a.Share(calls.SharesOf(r.Functions, r.Inferred))
	}
	p.reader.Do(func() { s.sub.Shares = calls.SharesOf(r.Functions, r.Inferred) })
	return left
}

// detaches reports whether the source's probes may be detached for a while. Goroutines
// that end meanwhile would leave stale calls, and later calls would appear nested in
// them.
func (s *source) detaches() bool {
	return s.ability().Gate == plan.AtEntry && s.follower == nil && !slices.ContainsFunc(s.resolution.Landmarks, func(l calls.Landmark) bool { return l.Cookie&abi.GoRegisters != 0 })
}

// detach implements probes.Detach. Calls under way become unfinished.
func (s *source) detach() error {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	in := p.active[s]
	if in == nil || s.stopped {
		p.mu.Unlock()
		return nil
	}
	links := slices.Clone(in.Links)
	in.Links = nil
	p.mu.Unlock()
	attach.CloseAll(links) // slow; done without Provider.mu
	return nil
}

// attach implements probes.Attach.
func (s *source) attach() error {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped || len(in.Links) > 0 {
		return nil
	}
	in.Sweeper.Forget()
	if err := p.attachAll(s, in); err != nil {
		attach.CloseAll(in.Links) // all or none, so that attach can be retried
		in.Links = nil
		return err
	}
	return nil
}
