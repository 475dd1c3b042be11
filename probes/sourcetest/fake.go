package sourcetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
)

// Capable returns the Info of a source with every capability.
func Capable() probes.Info {
	return probes.Info{
		Sites: []probes.Site{{Provider: "fake", Function: "f"}}, Notices: []string{"it is a fake"}, Live: true, Identity: "fake",
		Aggregates: true, Aggregation: "as a fake", OnDemand: true, Suspends: true, Resends: true,
		Gateable: true, Ability: plan.Ability{Gate: plan.AtEntry, Opens: true}, Detaches: true, Standby: true, WaitNs: 1,
	}
}

// Commands returns one of each command.
func Commands() []probes.Command {
	return []probes.Command{
		probes.Divide{Begin: func(probes.Cut) {}, Done: func() {}}, probes.CountUnfinished{}, probes.Collect{}, probes.Sample{},
		probes.Suspend{All: true}, probes.Resend{}, probes.Begin{}, probes.Detach{}, probes.Attach{}, probes.ProcessorTime{},
	}
}

// Name returns the name of a command in tables.
func Name(c probes.Command) string { return fmt.Sprintf("%T", c)[len("probes."):] }

// Fake is a source that behaves as its Info says, and records the calls it
// receives. It produces no rows.
type Fake struct {
	Has     probes.Info
	Options probes.Options // of Load, or of Start without Load

	mu             sync.Mutex // guards the fields below
	sink           probes.Sink
	loads, starts  int
	stopped, ended bool
	received       []string
	cuts           uint64
}

// Info implements probes.Source.
func (f *Fake) Info() probes.Info { return f.Has }

// Load implements probes.Source.
func (f *Fake) Load(_ context.Context, o probes.Options) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++
	f.Options = o
	return nil
}

// Start implements probes.Source.
func (f *Fake) Start(_ context.Context, sink probes.Sink, o probes.Options) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts++
	f.Options, f.sink = o, sink
	return nil
}

// Control implements probes.Source.
func (f *Fake) Control(_ context.Context, c probes.Command) (r probes.Reply, err error) {
	if !f.Has.Supports(c) {
		return probes.Unsupported(c)
	}
	f.mu.Lock()
	f.received = append(f.received, Name(c))
	runs := f.sink != nil && !f.stopped
	f.cuts++
	cut := probes.Cut{At: int64(f.cuts), Number: f.cuts}
	f.mu.Unlock()
	switch c := c.(type) {
	case probes.Divide:
		if runs {
			c.Begin(cut)
			c.Done()
		}
	case probes.CountUnfinished:
		r.Unfinished = 1
	case probes.ProcessorTime:
		r.Used, r.Known = time.Second, true
	}
	return r, nil
}

// Stats implements probes.Source.
func (f *Fake) Stats() (st probes.Stats) {
	st.Events, st.Waited = 3, 2
	return st
}

// Stop implements probes.Source.
func (f *Fake) Stop() error {
	f.mu.Lock()
	end := f.sink != nil && !f.ended
	f.stopped, f.ended = true, true
	f.mu.Unlock()
	if end {
		f.sink.End(nil)
	}
	return nil
}

// Received returns the names of the commands received since the last call.
func (f *Fake) Received() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	received := f.received
	f.received = nil
	return received
}

// Loads returns how often the source was loaded.
func (f *Fake) Loads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loads
}

// Starts returns how often it was started.
func (f *Fake) Starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// Stopped reports whether it was stopped.
func (f *Fake) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Provider returns fakes with one Info.
type Provider struct {
	Has probes.Info

	mu    sync.Mutex
	fakes []*Fake
}

// Streams implements probes.Provider.
func (p *Provider) Streams() []string { return nil }

// Close implements probes.Provider.
func (p *Provider) Close() error { return nil }

// Prepare implements probes.Provider.
func (p *Provider) Prepare(context.Context, *plan.Acquire) (probes.Source, error) {
	f := &Fake{Has: p.Has}
	p.mu.Lock()
	p.fakes = append(p.fakes, f)
	p.mu.Unlock()
	return f, nil
}

// Fakes returns the prepared sources.
func (p *Provider) Fakes() []*Fake {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.fakes)
}
