package uprobe

import (
	"errors"
	"fmt"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/bpf"

	"golang.org/x/sys/unix"
)

// acquire attaches what s wants and nobody has attached yet, and routes its
// events to sink. On an error nothing of it remains.
func (p *Provider) acquire(s *source, sink probes.Sink) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("uprobe: the provider is closed")
	}
	if s.stopped {
		return errors.New("uprobe: the source was stopped")
	}
	if p.kernel == nil {
		k, err := load(p.o)
		if err != nil {
			return err
		}
		p.kernel = k
	}
	if p.reader == nil {
		p.reader = startReader(p.kernel, p.o.Lateness)
	}
	if err := p.take(s); err != nil {
		p.release(s)
		return err
	}
	ids := make([]uint32, len(s.probes))
	sub := newSubscription(s.spec.Out.Types(), s.wants, sink, p.offset, p.reader.exes)
	for i, pr := range s.probes {
		ids[i] = pr.id
		sub.name(pr.id, s.resolution.wants[i].label)
	}
	// Shared probes give what s wants from here on; since then it is the
	// query's. The others are attached when their events have somewhere to go.
	for _, pr := range s.probes {
		if err := p.configure(pr); err != nil {
			p.release(s)
			return fmt.Errorf("configuring probes: %w", err)
		}
	}
	s.sub = sub
	p.reader.subscribe(sub, ids)
	if err := p.attachNew(s); err != nil {
		p.release(s)
		return err
	}
	return nil
}

// take makes s a user of its probes, and makes those that do not exist.
func (p *Provider) take(s *source) error {
	ws := s.resolution.wants
	group := ""
	if s.wants.depth {
		group = groupOf(ws)
	}
	fresh := 0
	for _, w := range ws {
		if p.active.probes[keyOf(w, group)] == nil {
			fresh++
		}
	}
	if free := p.kernel.ids.available(); fresh > free {
		return p.tooMany(s.spec, p.o.MaxProbes-free+fresh)
	}
	for _, w := range ws {
		key := keyOf(w, group)
		pr := p.active.probes[key]
		var err error
		if pr == nil {
			pr, err = p.newProbe(key, w)
			p.active.probes[key] = pr
		}
		// Registered even if it failed: release undoes what there is of it.
		pr.users[s] = s.wants.flags
		s.probes = append(s.probes, pr)
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Provider) newProbe(key probeKey, w want) (*probe, error) {
	id, _ := p.kernel.ids.get()
	pr := &probe{
		key: key, id: id, base: w.flags | w.scope.flags,
		users: map[*source]uint32{}, members: w.scope.members, label: w.label, method: w.site.Method,
	}
	pr.config.Site = siteHash(key)
	if key.group != "" {
		pr.config.Group, _ = p.active.groups.take(key.group)
	}
	var per []bpf.FunctionCounters
	before, err := p.kernel.counters(id, &per)
	if err != nil {
		return pr, fmt.Errorf("reading counters: %w", err)
	}
	pr.hitsBefore = before.Hits
	if len(pr.members) == 0 {
		return pr, nil
	}
	n, first := p.active.scopes.take(key.scope)
	pr.config.Scope = n
	if !first {
		return pr, nil
	}
	for _, m := range pr.members {
		m.Scope = n
		if err := p.kernel.addTarget(m); err != nil {
			return pr, fmt.Errorf("noting the target: %w", err)
		}
	}
	return pr, nil
}

func keyOf(w want, group string) probeKey {
	return probeKey{file: w.module.id, offset: w.site.Offset, returns: w.returns, scope: w.scope.key, group: group}
}

// configure tells the kernel what is wanted of a probe now.
func (p *Provider) configure(pr *probe) error {
	f := pr.flags()
	if pr.config.Flags == f {
		return nil
	}
	pr.config.Flags = f
	return p.kernel.configure(pr.id, pr.config)
}

// attachNew attaches the probes of s that are not: in one go for each module
// and restriction of the link.
func (p *Provider) attachNew(s *source) error {
	type group struct {
		module *module
		pid    int
	}
	var order []group
	members := map[group][]*probe{}
	for i, pr := range s.probes {
		if pr.bundle != nil {
			continue
		}
		w := s.resolution.wants[i]
		g := group{w.module, w.scope.pid}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], pr)
	}
	for _, g := range order {
		b := &bundle{probes: members[g]}
		if err := p.attachBundle(b, g.module, g.pid); err != nil {
			return p.refuseAttach(s, err, b.probes, g.module, g.pid)
		}
		for _, pr := range b.probes {
			pr.bundle = b
		}
	}
	return nil
}

// attachBundle attaches the probes of b, which want the same of the kernel.
func (p *Provider) attachBundle(b *bundle, m *module, pid int) error {
	offsets := make([]uint64, len(b.probes))
	cookies := make([]uint64, len(b.probes))
	for i, pr := range b.probes {
		offsets[i], cookies[i] = pr.key.offset, uint64(pr.id)
	}
	programs := p.kernel.objects.Programs
	add := func(name string, attachType, flags uint32) error {
		l, err := attach(programs[name], m.file, attachType, flags, pid, offsets, cookies)
		if err != nil {
			b.close()
			b.links = nil
			return err
		}
		// Those attached last are closed first.
		b.links = append([]*link{l}, b.links...)
		return nil
	}
	switch {
	case !b.probes[0].key.returns:
		return add(bpf.FunctionProgFunctionEntry, attachMulti, 0)
	case p.kernel.session:
		return add(bpf.FunctionProgFunctionSession, attachSession, 0)
	}
	// Returns before entries: an entry that was noted finds its return.
	if err := add(bpf.FunctionProgPairReturn, attachMulti, multiReturn); err != nil {
		return err
	}
	return add(bpf.FunctionProgPairEntry, attachMulti, 0)
}

// refuseAttach puts the kernel's refusal into the user's words.
func (p *Provider) refuseAttach(s *source, err error, ps []*probe, m *module, pid int) error {
	start, stop := s.spec.Start, s.spec.Stop
	switch {
	case errors.Is(err, unix.ESRCH):
		return refuseTarget(s.spec.Target, "process %d has ended", pid)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return plan.Errorf(start, stop, "the kernel does not allow probes in %s", m.name()).WithHint("run as root")
	case errors.Is(err, unix.ENOMEM):
		return plan.Errorf(start, stop, "there is not enough memory for %d probes", len(ps))
	}
	i, reason := culprit(func(lo, hi int) error {
		b := &bundle{probes: ps[lo:hi]}
		err := p.attachBundle(b, m, pid)
		b.close()
		return err
	}, len(ps))
	if i < 0 {
		return plan.Errorf(start, stop, "the kernel refuses to attach %d probes in %s: %v", len(ps), m.name(), err)
	}
	return plan.Errorf(start, stop, "the kernel refuses to probe %s in %s: %v", ps[i].label.function, m.name(), reason).
		WithHint("leave it out of the functions selected")
}

// release ends s's use of its probes: disarm, read what happened before,
// account, forget. Provider.mu is held.
func (p *Provider) release(s *source) {
	if p.kernel == nil { // nothing was ever attached, or the provider was closed
		s.probes, s.sub = nil, nil
		return
	}
	var gone []*probe
	seen := map[*bundle]bool{}
	for _, pr := range s.probes {
		delete(pr.users, s)
		// Switched off at once; a failure leaves events that go nowhere.
		_ = p.configure(pr)
	}
	for _, pr := range s.probes {
		switch b := pr.bundle; {
		case b == nil: // it was never attached
			if len(pr.users) == 0 {
				gone = append(gone, pr)
			}
		case !seen[b] && !b.used():
			seen[b] = true
			b.close()
			gone = append(gone, b.probes...)
		}
	}
	if s.sub != nil {
		p.reader.unsubscribe(s.sub)
		s.sub = nil
	}
	for _, pr := range gone {
		p.forget(pr)
	}
	s.probes = nil
	if p.reader != nil && len(p.active.probes) == 0 {
		p.reader.stop()
		p.reader = nil
	}
}

// forget frees what a probe held that is attached no more.
func (p *Provider) forget(pr *probe) {
	delete(p.active.probes, pr.key)
	p.kernel.ids.put(pr.id)
	if pr.key.group != "" {
		p.active.groups.give(pr.key.group)
	}
	if pr.config.Scope != 0 && p.active.scopes.give(pr.key.scope) {
		for _, m := range pr.members {
			m.Scope = pr.config.Scope
			p.kernel.removeTarget(m)
		}
	}
}
