package fake

import (
	"strings"
	"time"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// profiling returns the answers to the statements of endoscope top and endoscope flame: a
// program that is in work half of the time, and waits the other half.
func profiling(text string) (b behaviour, ok bool) {
	switch {
	case strings.Contains(text, "svg(TRIE("):
		samples := 200
		if strings.Contains(text, "'RUN' FOR 1ms") {
			samples = 0
		}
		return behaviour{columns("svg", types.Varchar, "samples", types.Bigint, "threads", types.Bigint, "cut", types.Bigint), func(r *result) error {
			return r.rows(row("<svg/>\n", samples, 3, 1))
		}}, true
	case strings.Contains(text, "SAMPLE(stack_sample"):
		return behaviour{columns("tid", types.Bigint, "runs", types.Boolean, "stack", types.List, "n", types.Bigint), playStacks}, true
	case strings.Contains(text, "LIMIT") && strings.Contains(text, "caller"):
		return behaviour{columns("caller", types.Varchar, "duration", types.Duration, "arg0", types.Bigint, "arg1", types.Bigint, "arg2", types.Bigint, "arg3", types.Bigint), func(r *result) error {
			return r.rows(row("loop", 2*time.Millisecond, 7, 8, 9, 10), row("loop", 3*time.Millisecond, 7, 8, 9, 10))
		}}, true
	case strings.Contains(text, "SAMPLE(process_usage"):
		return behaviour{columns("timestamp", types.Timestamp, "percent_cpu", types.Double), func(r *result) error {
			return r.rows(row(types.Time(0), types.Float(50)))
		}}, true
	case strings.Contains(text, "WITHIN OVERHEAD"):
		return behaviour{columns("function_name", types.Varchar, "module", types.Varchar, "n", types.Bigint, "avg", types.Duration, "p99", types.Duration,
			"exact", types.Boolean, "share", types.Double, "high", types.Bigint), func(r *result) error {
			r.summary.Overhead = 0.005
			return r.eachWindow(func() error {
				return r.rows(row("work", "app", 1<<40, 400*time.Microsecond, 2*time.Millisecond, types.Bool(false), types.Float(0.01), 1<<41))
			})
		}}, true
	}
	return behaviour{}, false
}

// playStacks sends the samples of a window until the result is stopped.
func playStacks(r *result) error {
	stack := func(names ...string) types.Value {
		var frames []types.Value
		for _, n := range names {
			frames = append(frames, types.ListOf([]types.Value{types.Str(n), types.Str("app"), types.Str("user")}))
		}
		return types.ListOf(frames)
	}
	return r.eachWindow(func() error {
		return r.rows(row(1, types.Bool(true), stack("work", "loop", "main"), 50), row(1, types.Bool(false), stack("wait", "loop", "main"), 50))
	})
}

// eachWindow calls send for each window until the result is stopped.
func (r *result) eachWindow(send func() error) error {
	for {
		if err := send(); err != nil {
			return err
		}
		if err := r.send(wire.Event{Kind: wire.Flush}); err != nil {
			return err
		}
		select {
		case <-r.stopped:
			return nil
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(50 * time.Millisecond): // a window of the fake engine
		}
	}
}
