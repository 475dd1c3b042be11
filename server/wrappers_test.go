package server

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/elf"
	"endoscope/probes/entities"
	"endoscope/probes/sourcetest"
	"endoscope/server/handlerstream"
	"endoscope/server/sharing"
)

// verdict is what a wrapper does with a command.
type verdict int

const (
	refuses    verdict = iota
	forwards           // to the wrapped source, perhaps combined with others, if that supports it
	translates         // it is the wrapper's to obey, and the wrapped source is told if it supports it
	own                // it is the wrapper's to obey
)

// TestWrappersStateEveryCommand: what each wrapper of a source does with each command,
// whatever the wrapped source can do, before and after each of its states.
func TestWrappersStateEveryCommand(t *testing.T) {
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	target := plan.Target{PIDs: []int{sleeper.Process.Pid}}
	prepared := func(t *testing.T, p probes.Provider, spec *plan.Acquire) probes.Source {
		src, err := p.Prepare(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	handlers := func(spec *plan.Acquire) func(*testing.T, *sourcetest.Provider) probes.Source {
		return func(t *testing.T, under *sourcetest.Provider) probes.Source {
			spec.Stream = handlerstream.Stream
			return prepared(t, &handlerstream.Provider{Stacks: under}, spec)
		}
	}
	for _, w := range []struct {
		name string
		over func(t *testing.T, under *sourcetest.Provider) probes.Source
		does map[string]verdict // refuses, if it is not there
	}{
		{"part", func(t *testing.T, under *sourcetest.Provider) probes.Source {
			spec := &plan.Acquire{Out: types.Schema{Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp}}}}
			return offered(t, sharing.New(), prepared(t, under, spec), spec)
		}, map[string]verdict{"Collect": forwards, "Resend": forwards}},
		{"handlers", handlers(&plan.Acquire{Every: time.Second}), nil},
		{"handlers on demand", handlers(&plan.Acquire{OnDemand: true}), map[string]verdict{"Sample": own}},
		{"handler_cost", func(t *testing.T, under *sourcetest.Provider) probes.Source {
			return prepared(t, &handlerstream.CostProvider{Handlers: under, Calls: under}, &plan.Acquire{Stream: handlerstream.CostStream})
		}, nil},
		{"entities", func(t *testing.T, under *sourcetest.Provider) probes.Source {
			p := entities.New(under, under, &elf.Cache{})
			return prepared(t, p, &plan.Acquire{Stream: entities.EntityEvents, Target: target})
		}, map[string]verdict{"Suspend": translates, "Resend": own}},
	} {
		for name, has := range map[string]probes.Info{"all": sourcetest.Capable(), "none": {}} {
			t.Run(w.name+" over "+name, func(t *testing.T) {
				under := &sourcetest.Provider{Has: has}
				src := w.over(t, under)
				info := src.Info()
				for _, c := range sourcetest.Commands() {
					can := false
					switch w.does[sourcetest.Name(c)] {
					case forwards:
						can = has.Supports(c)
					case translates, own:
						can = true
					}
					if info.Supports(c) != can {
						t.Errorf("%s is supported: %v", sourcetest.Name(c), info.Supports(c))
					}
				}
				sourcetest.Contract(t, src, func(state string, c probes.Command) {
					told := false
					for _, f := range under.Fakes() {
						told = slices.Contains(f.Received(), sourcetest.Name(c)) || told
					}
					want := false
					switch w.does[sourcetest.Name(c)] {
					case forwards:
						want = has.Supports(c)
					case translates:
						want = has.Supports(c) && state == "started"
					}
					if told != want {
						t.Errorf("%s: %s reaches the wrapped source: %v", state, sourcetest.Name(c), told)
					}
				})
				for i, f := range under.Fakes() {
					if f.Loads() != 1 || f.Starts() != 1 || !f.Stopped() {
						t.Errorf("source %d was loaded %d times, started %d times, stopped: %v", i, f.Loads(), f.Starts(), f.Stopped())
					}
				}
			})
		}
	}
}

// TestSecondPartControlsTheRunningSource: commands of a part that has joined reach the
// source that acquires, and not its own, which is stopped.
func TestSecondPartControlsTheRunningSource(t *testing.T) {
	all, spec := sharing.New(), &plan.Acquire{Out: types.Schema{Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp}}}}
	var fakes []*sourcetest.Fake
	var parts []*sharing.Part
	var sinks []*sourcetest.Discard
	for range 2 {
		f := &sourcetest.Fake{Has: sourcetest.Capable()}
		p := offered(t, all, f, spec)
		sink := &sourcetest.Discard{Ended: make(chan struct{})}
		if err := p.Start(t.Context(), sink, probes.Options{}); err != nil {
			t.Fatal(err)
		}
		fakes, parts, sinks = append(fakes, f), append(parts, p), append(sinks, sink)
	}
	if fakes[1].Starts() != 0 || !fakes[1].Stopped() {
		t.Error("the second source was needed")
	}
	fakes[0].Received() // Divide
	for _, c := range []probes.Command{probes.Collect{}, probes.Resend{}} {
		if _, err := parts[1].Control(t.Context(), c); err != nil {
			t.Error(err)
		}
		if first, second := fakes[0].Received(), fakes[1].Received(); !slices.Equal(first, []string{sourcetest.Name(c)}) || len(second) != 0 {
			t.Errorf("%s reached %v of the first and %v of the second", sourcetest.Name(c), first, second)
		}
	}
	if got, want := parts[1].Stats(), fakes[0].Stats(); got != want {
		t.Errorf("it has done %+v, want %+v", got, want)
	}
	for _, p := range parts {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range sinks {
		<-s.Ended
	}
}

// offered is the part of a query whose source can be shared.
func offered(t *testing.T, all *sharing.Shares, own probes.Source, spec *plan.Acquire) *sharing.Part {
	t.Helper()
	p := all.Offer(own, &probes.Info{Identity: "fake", Live: true}, spec, func() int64 { return 0 })
	if p == nil {
		t.Fatal("the source cannot be shared")
	}
	return p
}
