package uprobe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// growing is a source whose modules may be mapped while it runs (dlopen, exec): it
// consists of a source for the modules known at the start, if any, and one more for each
// module mapped later. It is notified after a mapping has been made and does not stop
// the process: calls until the probes are attached are a gap, which is reported. A
// library whose file is found in advance has no gap (findExpected).
//
// Stop excludes the handling of mappings by closing the watch first. growing.mu guards
// the fields below it, and is held only briefly.
type growing struct {
	provider *Provider
	spec     *plan.Acquire
	cols     []calls.Column
	links    attach.Kind
	pending  *resolve.Pending
	residual plan.Expr
	merge    *merge
	watch    *process.MapWatch // nil before Start
	matcher  *process.Matcher

	// mappings queues mappings to be examined. To probe a library takes longer than the
	// kernel's buffers last.
	mappings chan process.Mapped
	looking  sync.WaitGroup

	mu        sync.Mutex
	parts     []*source                     // including the first one
	known     map[mappedIn]selection.Change // 0: probed; else the change time of a file without matching functions
	since     map[mappedIn]int64            // time of the first mapping of files that could not be probed then
	stopped   bool
	options   probes.Options // of Start, for later parts
	suspended probes.Suspend // the last command
	done      chan struct{}  // closed when nothing is attached any more
}

// mappedIn is a file as in /proc/pid/maps, and the process for which it is probed; 0
// means all processes of the target.
type mappedIn struct {
	file process.FileID
	pid  int
}

const (
	maxGrown = 1024 // maximum number of modules added
	maxHeard = 4096 // maximum length of the queue of mappings
)

func newGrowing(p *Provider, spec *plan.Acquire, cols []calls.Column, links attach.Kind, c *resolve.Pending, first *source) *growing {
	g := &growing{
		provider: p, spec: spec, cols: cols, links: links, pending: c,
		known: map[mappedIn]selection.Change{}, since: map[mappedIn]int64{}, done: make(chan struct{}), mappings: make(chan process.Mapped, maxHeard), matcher: process.NewMatcher(spec.Target),
	}
	// The residual condition does not depend on the functions.
	if values, err := calls.NewValues(spec, slices.Clone(cols), calls.ValuesOf(spec), nil); err == nil {
		g.residual = calls.CompileFilter(p.o.Match, p.offset, spec, values, nil).Program.Residual
	}
	if first != nil {
		g.parts = []*source{first}
		g.residual = first.residual()
		g.recordModules(first)
	}
	return g
}

// recordModules records the modules of a part. The caller holds mu, or calls it before Start.
func (g *growing) recordModules(s *source) {
	s.owner = g
	for _, m := range s.resolution.Modules.List {
		if id, err := process.MappedID(m.File); err == nil && len(m.Expected) > 0 {
			for _, p := range m.Expected {
				g.known[g.key(id, p.PID)] = 0
			}
		} else if err == nil && len(m.Mapped) == 0 {
			g.known[g.key(id, 0)] = 0
		}
		for _, pl := range m.Mapped {
			g.known[g.key(process.FileID{Dev: pl.Mapping.Dev, Inode: pl.Mapping.Inode}, pl.Process.PID)] = 0
		}
	}
}

// key returns the key of a file mapped by process pid.
func (g *growing) key(id process.FileID, pid int) mappedIn {
	t := g.spec.Target
	if t.Grows() || t.Follow {
		pid = 0
	}
	return mappedIn{id, pid}
}

// first returns the part made when the query was prepared; nil if there is none.
func (g *growing) first() *source {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parts) == 0 {
		return nil
	}
	return g.parts[0]
}

// each calls f for every part, and returns all errors.
func (g *growing) each(f func(*source) error) error {
	g.mu.Lock()
	parts := slices.Clone(g.parts)
	g.mu.Unlock()
	var errs []error
	for _, s := range parts {
		errs = append(errs, f(s))
	}
	return errors.Join(errs...)
}

// Start implements probes.Source. Mappings made while the first part is being probed are
// not missed: look finds those made before the watch began.
func (g *growing) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	if s := g.first(); s != nil && s.refusal != nil {
		return s.refusal
	}
	g.options = o
	g.merge = newMerge(sink, int64(g.provider.lateness(g.spec)))
	ended, forget, err := watchAll(g.spec.Target, func(process.Process) bool { return true })
	if err != nil {
		forget()
		return err
	}
	if s := g.first(); s != nil {
		if err := s.Start(ctx, g.merge.add(), o); err != nil {
			forget()
			return err
		}
	}
	// Modules mapped after Prepare and before the watch are found by a second look.
	watch, err := process.WatchMappings(g.queueMapping, g.recordsLost, g.byName())
	if err != nil {
		forget()
		for _, s := range g.parts {
			s.Stop()
		}
		return plan.Errorf(g.spec.Start, g.spec.Stop, "libraries that are loaded later cannot be followed: %v", err)
	}
	g.mu.Lock()
	over := g.stopped
	if !over {
		g.watch = watch
	}
	g.mu.Unlock()
	g.looking.Go(func() {
		for m := range g.mappings {
			g.mapped(m)
		}
	})
	if over {
		g.unwatch(watch)
		forget()
		return errStopped
	}
	g.look()
	go g.runUntilEnd(ended, forget)
	return nil
}

// runUntilEnd advances the watermark while there is no part, and stops the source when its
// processes have ended.
func (g *growing) runUntilEnd(ended <-chan struct{}, forget func()) {
	defer func() { forget() }()
	ticker := time.NewTicker(decode.MarkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			g.merge.idle()
		case <-ended:
			forget()
			if ended, forget = g.watchFamily(); ended == nil {
				g.Stop()
				return
			}
		case <-g.done:
			return
		}
	}
}

// watchFamily is source.watchFamily of the first part.
func (g *growing) watchFamily() (<-chan struct{}, func()) {
	if first := g.first(); first != nil {
		return first.watchFamily()
	}
	return nil, func() {}
}

// Stop implements probes.Source.
func (g *growing) Stop() error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
	watch := g.watch
	g.mu.Unlock()
	if !first {
		if watch != nil {
			<-g.done
		}
		return nil
	}
	if watch != nil {
		g.unwatch(watch)
	}
	err := g.each((*source).Stop)
	if watch == nil { // it never began
		return err
	}
	close(g.done)
	g.merge.end(err)
	return nil
}

// grow probes the functions of a newly mapped module.
func (g *growing) grow(f *selection.Mapping) error {
	if first := g.first(); first != nil && calls.Nests(g.spec) {
		return first.extend(f)
	}
	spec := *g.spec
	switch first := g.first(); {
	case g.byName(), spec.Target.Follow && first == nil && !slices.ContainsFunc(spec.Target.PIDs, hasEnded):
	case spec.Target.Follow && first != nil:
		spec = *first.specFor(f.Process.PID)
	default:
		spec.Target.PIDs = []int{f.Process.PID}
	}
	var by *selection.Selector
	s, err := g.provider.prepare(&spec, g.cols, g.links, func(_ plan.Target, _ []process.Process, sel *selection.Selector) (*selection.ModuleSet, error) {
		by, sel.Sizes = sel, sizingWith(&spec, g.first())
		set := selection.NewModuleSet()
		if err := set.AddFound(f); err != nil {
			set.Close()
			return nil, err
		}
		return set, nil
	})
	if err != nil {
		if !g.byName() && !slices.ContainsFunc(spec.Target.PIDs, runs) {
			return errGone
		}
		return err
	}
	if resolve.TextOf(s.residual()) != resolve.TextOf(g.residual) {
		s.Stop()
		return errOtherwise
	}
	g.mu.Lock()
	if g.stopped {
		g.mu.Unlock()
		s.Stop()
		return errStopped
	}
	s.owner, s.suspended, s.executables = g, g.suspended, nil
	if spec.Target.Follow && len(g.parts) > 0 {
		s.relatives = g.parts[0]
	}
	if len(g.parts) > 0 {
		s.contexts = g.parts[0].contexts
	}
	g.parts = append(g.parts, s)
	g.mu.Unlock()
	sink := g.merge.add()
	if err := s.Start(context.Background(), sink, g.options); err != nil {
		sink.End(nil) // no rows; removes it from the watermark
		g.mu.Lock()
		g.parts = slices.DeleteFunc(g.parts, func(part *source) bool { return part == s })
		g.mu.Unlock()
		return err
	}
	if by.LeftOut.Load() {
		g.merge.lost(fmt.Sprintf("calls of functions of %s that allocate what a text takes", filepath.Base(f.Mapping.Path)), 1)
	}
	return nil
}

// runs reports whether a process runs.
func runs(pid int) bool {
	_, ok := process.Lookup(pid)
	return ok
}

func hasEnded(pid int) bool { return !runs(pid) }

// errGone is returned for a library of a process selected by pid that has ended.
var errGone = errors.New("its process has ended")

// endedFirst is one text for all libraries whose process ended first, because there may
// be many.
const endedFirst = "libraries whose process ended before they could be probed"

// errStopped is returned for modules mapped too late.
var errStopped = errors.New("the query has ended")

// refuse reports that a newly mapped module is not probed.
func (g *growing) refuse(name string, err error) {
	var none *resolve.NoFunction
	switch {
	case errors.Is(err, errStopped):
		g.merge.lost(fmt.Sprintf("calls in %s from its mapping until the query ended", name), 1)
	case errors.As(err, &none):
		if g.pending.Names == nil {
			return // not every one of many modules has the function
		}
		said := none.Why.Msg
		if none.Why.Hint != "" {
			said += "; " + none.Why.Hint
		}
		g.merge.count(said, 1)
	case errors.Is(err, errGone):
		g.merge.lost(endedFirst, 1)
	default:
		g.merge.lost(fmt.Sprintf("%s was loaded and is not probed: %v", name, err), 1)
	}
}

// sizingWith returns the requirement on sizes in a module added to those of first;
// first is nil if there are none.
func sizingWith(spec *plan.Acquire, first *source) selection.Sizing {
	switch {
	case !selection.TestsSizes(spec):
		return selection.AsTheyAre
	case first != nil && slices.ContainsFunc(first.resolution.Functions, func(w calls.Function) bool { return w.Unsized }):
		return selection.MayBeUnknown
	}
	return selection.AreKnown
}
