package uprobe

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"endoscope/planner/catalog"
	"endoscope/probes"
	"endoscope/probes/uprobe/selection"
)

// divide implements probes.Divide.
func (s *source) divide(begin func(probes.Cut), done func()) error {
	s.mu.Lock()
	a := s.aggregator
	s.mu.Unlock()
	if a != nil {
		return a.Divide(begin, done)
	}
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.stopped || p.active[s] == nil {
		return nil
	}
	var err error
	p.reader.Do(func() {
		var cut probes.Cut
		if cut, err = s.sub.Cut(); err != nil {
			return
		}
		begin(cut)
		p.reader.DrainAll()
		s.sub.Flush()
		s.sub.Account()
		done()
	})
	return err
}

// unfinished implements probes.CountUnfinished.
func (s *source) unfinished(from, until probes.Cut) uint64 {
	if s.sub == nil {
		return 0 // it was not started
	}
	return s.sub.Between(from.Number, until.Number)
}

// identify returns the source's Info.Identity. A sequence begins and ends for all its
// functions at one instant, and can have only one reader, so it has no identity.
func (s *source) identify() string {
	if s.spec.Stream == catalog.FunctionCall || s.spec.Settings.Unshared || s.spec.ReadsContext() {
		return ""
	}
	r := s.resolution
	id := fmt.Appendln(nil, s.links, s.wants.Cols, s.wants.Options, s.wants.Reading.Identity(), s.waits(), s.aggregation.Describe(), s.residual(), r.Only, selection.KeyOf(r.Members), s.spec.Target.Follow)
	// Binary, because there may be ten thousand functions.
	number := func(ns ...uint64) {
		for _, n := range ns {
			id = binary.LittleEndian.AppendUint64(id, n)
		}
	}
	text := func(ss ...string) {
		for _, s := range ss {
			number(uint64(len(s)))
			id = append(id, s...)
		}
	}
	const usual = 160 // bytes for a function
	id = slices.Grow(id, usual*len(r.Functions))
	// Probes placed before a file was written are not used any more.
	number(s.overwrites, uint64(len(r.Functions)), uint64(len(r.Inferred)), uint64(len(r.Landmarks)))
	for _, w := range r.Functions {
		number(w.Module.ID.Dev, w.Module.ID.Inode, w.Site.Offset, uint64(w.Flags), uint64(w.Returns), uint64(len(w.Exits)))
		for _, x := range w.Exits {
			number(x.Offset)
		}
		text(w.Scope.Key, w.Scope.Exe, w.Label.Function, w.Label.Class, w.Label.Module, w.Label.Exe)
	}
	for _, f := range r.Inferred {
		number(f.Module.ID.Dev, f.Module.ID.Inode, f.Entry, uint64(len(f.Sum)))
		for _, t := range f.Sum {
			number(uint64(t.Want), uint64(t.Times))
		}
		text(f.Label.Function, f.Label.Class, f.Label.Module, f.Label.Exe)
	}
	for _, g := range r.Landmarks {
		number(g.Module.ID.Dev, g.Module.ID.Inode, g.Site.Offset)
		text(g.Scope.Key)
	}
	// A pid may be reused; names match any process that has them.
	for _, p := range r.Running {
		if slices.Contains(s.spec.Target.PIDs, p.PID) {
			number(uint64(p.PID), uint64(p.StartTime))
		}
	}
	sum := sha256.Sum256(id)
	return string(sum[:])
}
