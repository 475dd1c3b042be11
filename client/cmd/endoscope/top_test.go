package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"endoscope/client/demo"
	"endoscope/client/top"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// top finds the functions of a program by samples, and counts them. The demo calls
// process_job from two workers that sleep in it, so that its calls are few and long.
func TestTopMeasuresAProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	target, err := demo.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer target.Stop()
	engine, err := program().Open()
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	s, err := engine.NewSession(t.Context(), wire.Options{PID: target.PID()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	meter := top.NewMeter(s, top.Limit)
	var mu sync.Mutex
	var last *top.Snapshot
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = meter.Run(ctx, func(s *top.Snapshot) { // it is canceled
			mu.Lock()
			last = s
			mu.Unlock()
		})
	}()
	testenv.Until(t, "process_job is counted, and its calls have a duration and a cost", func() bool {
		mu.Lock()
		defer mu.Unlock()
		if last == nil {
			return false
		}
		for _, f := range last.Functions {
			if f.Name == "process_job" && f.How != top.Sampled && f.Calls > 0 && f.Avg > time.Millisecond && f.P99 >= f.Avg && f.Cost > 0 {
				return last.Overhead() > 0 && last.Threads > 3
			}
		}
		return false
	})
	cancel()
	<-done
}
