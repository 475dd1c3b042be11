package fake

import (
	"errors"
	"os"
	"syscall"
	"time"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// behaviour is the behaviour of a query over a stream.
type behaviour struct {
	cols []wire.Column
	play func(r *result) error
}

var (
	callColumns  = columns("function_name", types.Varchar, "duration", types.Duration)
	countColumns = columns("n", types.Bigint)
)

var streams = map[string]behaviour{
	"calls": {callColumns, func(r *result) error {
		return r.rows(row("fib", 1234567*time.Nanosecond), row("process_job", 999*time.Nanosecond), row("handle_request", 2*time.Second))
	}},
	"types": {
		columns("s", types.Varchar, "i", types.Bigint, "f", types.Double, "b", types.Boolean,
			"t", types.Timestamp, "d", types.Duration, "l", types.List),
		func(r *result) error {
			histogram := types.ListOf([]types.Value{
				types.ListOf([]types.Value{types.Dur(1000), types.Dur(2000), types.Int(1)}),
				types.ListOf([]types.Value{types.Dur(2000), types.Dur(4000), types.Int(4)}),
			})
			nulls := make([]types.Value, len(r.cols))
			for i, c := range r.cols {
				nulls[i] = types.NullOf(c.Type)
			}
			return r.rows(
				row("plain", 42, types.Float(0.1), types.Bool(true), types.Time(1_767_323_045_123_456_789), 1500*time.Nanosecond, histogram),
				nulls,
				row("a,\"b\"\n\x1b[2J", -1, types.Float(1e300), types.Bool(false), types.Time(0), time.Duration(0), types.ListOf(nil)),
			)
		},
	},
	"stacks": {columns("stack", types.List, "count", types.Bigint), func(r *result) error {
		return r.rows(row(stackOf("parse", "serve", "main"), 3), row(stackOf("serve", "main"), 4))
	}},
	"none": {callColumns, func(*result) error { return nil }},
	"windows": {callColumns, func(r *result) error {
		for _, d := range []time.Duration{time.Millisecond, time.Second} {
			if err := r.rows(row("fib", d), row("fob", 2*d)); err != nil {
				return err
			}
			if err := r.send(wire.Event{Kind: wire.Flush}); err != nil {
				return err
			}
		}
		return nil
	}},
	"lossy": {countColumns, func(r *result) error {
		r.summary.Losses = []wire.Loss{{Cause: "ring buffer full", N: 12}, {Cause: "late", N: 5}}
		r.summary.Counts = []wire.Loss{{Cause: "calls unfinished", N: 3}}
		return r.rows(row(1))
	}},
	"noisy": {countColumns, func(r *result) error {
		if err := r.send(wire.Event{Kind: wire.Notice, Text: "duration became LAST(duration)"}); err != nil {
			return err
		}
		if err := r.rows(row(1)); err != nil {
			return err
		}
		return r.send(wire.Event{Kind: wire.Notice, Text: "the function \x1b[31mevil is gone"})
	}},
	"totals": {callColumns, func(r *result) error {
		for n := 1; ; n++ {
			if r.session.o.Live > 0 {
				if err := r.preview(row("fib", time.Duration(n)*time.Millisecond)); err != nil {
					return err
				}
			}
			select {
			case <-r.stopped:
				return r.rows(row("total", time.Second))
			case <-r.ctx.Done():
				return r.ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}},
	"endless": {countColumns, func(r *result) error {
		for n := 1; ; n++ {
			select {
			case <-r.stopped:
				return nil
			default:
			}
			if err := r.rows(row(n)); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}},
	"silent": {countColumns, (*result).wait},
	"late": {countColumns, func(r *result) error {
		select {
		case <-time.After(1500 * time.Millisecond):
			return r.rows(row(1))
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}},
	"broken": {countColumns, func(r *result) error {
		if err := r.rows(row(1)); err != nil {
			return err
		}
		return errors.New("the target can no longer be read")
	}},
	"ctrl_c":  {countColumns, func(r *result) error { return signalled(r, os.Interrupt) }},
	"sigterm": {countColumns, func(r *result) error { return signalled(r, syscall.SIGTERM) }},
	"stubborn": {countColumns, func(r *result) error {
		raise(os.Interrupt)
		if err := r.waitForSignal(); err != nil {
			return err
		}
		raise(os.Interrupt)
		<-r.ctx.Done()
		return r.ctx.Err()
	}},
	"slow_start": {},
}

// signalled delivers a row, raises a signal, and delivers another row when that has
// stopped it.
func signalled(r *result, sig os.Signal) error {
	if err := r.rows(row(1)); err != nil {
		return err
	}
	raise(sig)
	if err := r.waitForSignal(); err != nil {
		return err
	}
	return r.rows(row(2))
}

// stackOf returns a stack, leaf first.
func stackOf(functions ...string) types.Value {
	frames := make([]types.Value, len(functions))
	for i, f := range functions {
		frames[i] = types.ListOf([]types.Value{types.Str(f), types.Str("app"), types.Str("user")})
	}
	return types.ListOf(frames)
}
