package uprobe

import (
	"context"
	"errors"

	"endoscope/probes"
	"endoscope/probes/keeper"
	"endoscope/probes/uprobe/program"
)

// Load implements probes.Source. It loads the query's programs, which takes
// milliseconds, so that Start only has to attach them.
func (s *source) Load(ctx context.Context, o probes.Options) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("uprobe: the provider is closed")
	}
	keeper.Start() // while the programs are loaded
	s.options = o
	in, err := p.install(s)
	if err == nil {
		s.loaded = in
	}
	return err
}

// install loads the programs of s. The caller holds Provider.mu.
func (p *Provider) install(s *source) (*program.Installation, error) {
	if p.kernel == nil {
		c, err := p.compiled()
		if err != nil {
			return nil, err
		}
		k, err := program.New(p.o.RingBytes, p.o.MaxCalls, p.o.preallocates(), c)
		if err != nil {
			return nil, err
		}
		p.kernel = k
	}
	p.kernel.WarmUp.Begin()
	return p.kernel.Install(s.setup())
}

// unload undoes Load if its programs were not used.
func (p *Provider) unload(s *source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.loaded == nil {
		return
	}
	if p.kernel != nil {
		p.kernel.Remove(s.loaded)
	} else { // the provider was closed
		s.loaded.Objects.Close()
	}
	s.loaded = nil
}
