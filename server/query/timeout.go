package query

import (
	"fmt"
	"time"

	"endoscope/planner/plan"
)

// Timeout is the statement_timeout of a query. The zero value is none.
type Timeout struct {
	After time.Duration
	At    time.Time // After since the statement arrived
}

func (t Timeout) text() string {
	return fmt.Sprintf("statement_timeout (%s)", plan.FormatDuration(int64(t.After)))
}

// checkTimeout refuses to start a query whose time is over. It is measured from the
// arrival of the statement, so preparing a query counts.
func (q *Query) checkTimeout() error {
	if q.Timeout.After == 0 || time.Now().Before(q.Timeout.At) {
		return nil
	}
	return plan.Errorf(-1, -1, "%s was over before the query was armed", q.Timeout.text()).WithHint("SET statement_timeout")
}

// continues reports whether the query goes on until somebody ends it. Its result is
// then what it has found so far, whenever it ends. The result of other queries, such as
// those over files, would be wrong if they ended early.
func (q *Query) continues() bool {
	for _, f := range q.Feeds {
		if f.Live {
			return true
		}
	}
	return plan.EmitEvery(q.Plan.Root) > 0
}

// watchTimeout ends the query when its time is over, until stop is called.
func (q *Query) watchTimeout() (stop func()) {
	if q.Timeout.After == 0 {
		return func() {}
	}
	t := time.AfterFunc(time.Until(q.Timeout.At), func() {
		if q.Life.Phase() != PhaseRunning {
			return
		}
		q.expired.Store(true)
		if q.continues() {
			q.End()
		} else {
			q.Cancel()
		}
	})
	return func() { t.Stop() }
}

// timeoutNote returns the footer of a query that its timeout has ended; "": it was not.
func (q *Query) timeoutNote() string {
	if !q.expired.Load() || !q.continues() {
		return ""
	}
	return "ended by " + q.Timeout.text() + ": these are the rows until then"
}

// timeoutError returns the error of a query that its timeout has canceled; nil: it was not.
func (q *Query) timeoutError() error {
	if !q.expired.Load() || q.continues() {
		return nil
	}
	return plan.Errorf(-1, -1, "canceled by %s: a part of the input would give a wrong result", q.Timeout.text()).WithHint("SET statement_timeout")
}
