package fake

import (
	"time"

	"endoscope/planner/types"
)

var triggerColumns = columns("timestamp", types.Timestamp, "trigger", types.Varchar, "activation", types.Bigint, "action", types.Varchar, "row", types.Varchar)

// makeTrigger creates a trigger that notifies twice after a while, and samples.
func (s *session) makeTrigger() {
	select {
	case s.made <- struct{}{}:
	default:
	}
	if s.o.Notify == nil {
		return
	}
	go func() {
		time.Sleep(time.Second) // time for the test to type
		s.o.Notify("slow: disk \x1b[2J full")
		time.Sleep(200 * time.Millisecond)
		s.o.Notify("slow: again")
	}()
}

// playTrigger delivers the trigger's rows some time after its creation, and ends with
// it.
func playTrigger(r *result, follow bool) error {
	select {
	case <-r.session.made:
	case <-r.stopped:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	select {
	case <-time.After(800 * time.Millisecond):
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	if err := r.rows(
		row(types.Time(1_767_323_045_123_456_789), "slow", 1, "NOTIFY 'disk full'", `{"duration":5}`),
		row(types.Time(1_767_323_045_123_456_789), "slow", 1, "SAMPLE(cpu_usage, 100ms)", `{"percent_busy":70.5}`),
	); err != nil {
		return err
	}
	if follow {
		return r.wait()
	}
	return nil
}
