package uprobe

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
)

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
