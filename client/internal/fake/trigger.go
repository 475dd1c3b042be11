package fake

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"endoscope/planner/types"
)

var triggerColumns = columns("timestamp", types.Timestamp, "trigger", types.Varchar, "activation", types.Bigint, "action", types.Varchar, "row", types.Varchar)

// makeTrigger creates a trigger that samples, and then notifies twice: at once, or one
// step at each SIGUSR1 if it is on silent.
func (s *session) makeTrigger(text string) {
	steps := make(chan os.Signal, 1)
	if strings.Contains(text, " ON silent ") {
		signal.Notify(steps, syscall.SIGUSR1)
	} else {
		close(steps)
	}
	go func() {
		<-steps
		select {
		case s.made <- struct{}{}:
		default:
		}
		if s.o.Notify == nil {
			return
		}
		<-steps
		s.o.Notify("slow: disk \x1b[2J full")
		<-steps
		s.o.Notify("slow: again")
	}()
}

// playTrigger delivers the trigger's rows when it samples, and ends with it.
func playTrigger(r *result, follow bool) error {
	select {
	case <-r.session.made:
	case <-r.stopped:
		return nil
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
