package uprobe

import (
	"errors"
	"slices"

	"endoscope/probes/bpf"
)

// Need says, before Start, of which functions calls are told while the source is
// hushed.
func (s *source) Need(function func(name string) bool) { s.needed = function }

// Hush has calls overlooked from now on that begin, of a sequence with frames: all,
// or those on threads of these names. Those that were told of are followed to their
// end. Neither: no calls are overlooked any more.
func (s *source) Hush(all bool, threads []string) error {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return nil // it has ended
	}
	if s.wants.options&sendFrame == 0 {
		return errors.New("uprobe: only a sequence with frames can be hushed")
	}
	return in.hush(all, threads)
}

// Need is source.Need of all parts.
func (g *growing) Need(function func(name string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.needed = function
	for _, s := range g.parts {
		s.Need(function)
	}
}

// Hush is source.Hush of all parts, and of those to come.
func (g *growing) Hush(all bool, threads []string) error {
	g.mu.Lock()
	g.hushed = func(s *source) error { return s.Hush(all, threads) }
	parts := slices.Clone(g.parts)
	g.mu.Unlock()
	var errs []error
	for _, s := range parts {
		errs = append(errs, s.Hush(all, threads))
	}
	return errors.Join(errs...)
}

// Values of the programs' variable hush.
const (
	hushNone = iota
	hushAll
	hushSome
)

// maxHushed is how many names of threads the programs know.
const maxHushed = 256

// hush tells the programs. Names come before what has them looked at.
func (in *installation) hush(all bool, threads []string) error {
	level := uint32(hushNone)
	switch {
	case all:
		level = hushAll
	case len(threads) > maxHushed:
		return errors.New("uprobe: too many threads are hushed")
	case len(threads) > 0:
		level = hushSome
	}
	names, v := in.objects.Maps[bpf.FunctionMapHushedNames], in.objects.Variables[bpf.FunctionVarHush]
	if names == nil || v == nil {
		return nil // there are no programs that are told
	}
	want := map[bpf.FunctionHushedName]bool{}
	for _, name := range threads {
		var key bpf.FunctionHushedName
		for i := range min(len(name), len(key.Comm)-1) {
			key.Comm[i] = int8(name[i])
		}
		want[key] = true
	}
	var stale []bpf.FunctionHushedName
	var key bpf.FunctionHushedName
	var set uint8
	for each := names.Iterate(); each.Next(&key, &set); {
		if !want[key] {
			stale = append(stale, key)
		}
	}
	for _, key := range stale {
		if err := names.Delete(key); err != nil {
			return err
		}
	}
	for key := range want {
		if err := names.Put(key, uint8(1)); err != nil {
			return err
		}
	}
	return v.Set(level)
}
