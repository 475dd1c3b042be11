package probes

import (
	"errors"

	"endoscope/planner/plan"
)

// AtStream returns err, with the position of the specification's stream if it is
// a *plan.Error without a position.
func AtStream(err error, spec *plan.Acquire) error {
	e, ok := errors.AsType[*plan.Error](err)
	if !ok || e.Start >= 0 {
		return err
	}
	located := *e
	located.Start, located.Stop = spec.Start, spec.Stop
	return &located
}

// RequireProcess returns an error if the specification names no process.
func RequireProcess(spec *plan.Acquire) error {
	if !spec.Target.IsZero() {
		return nil
	}
	return plan.Errorf(spec.Start, spec.Stop, "%s needs a process", spec.Stream).
		WithHint("WHERE pid = ..., WHERE process = '...', or USE ...")
}

// RequireSampling returns an error if the specification asks for every value of
// a stream that has one at every instant; its hint suggests an interval.
func RequireSampling(spec *plan.Acquire, interval string) error {
	if spec.Every > 0 || spec.OnDemand {
		return nil
	}
	return plan.Errorf(spec.Start, spec.Stop, "%s has a value at every instant and cannot be read tuple by tuple", spec.Stream).
		WithHint("SAMPLE(%s, %s)", spec.Stream, interval)
}
