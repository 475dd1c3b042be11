package query

import (
	"fmt"
	"time"
)

// precisionInterval is how often it is checked whether results are known as well as ERROR
// WITHIN asks.
const precisionInterval = time.Second

// precisionDue collects what the sources have, to check it.
func (r *runner) precisionDue() {
	if !r.Life.May(stepCollect) {
		return
	}
	r.show.precision = true
	if !r.show.asking {
		r.ask()
	}
}

// checkPrecision ends the query if all its results are known well enough.
func (r *runner) checkPrecision() error {
	p, err := r.Graph.Precision()
	if err == nil && p.Enough() {
		r.known = true
		r.halt()
	}
	return err
}

// precisionNote says whether the query ended because its results were known well enough.
func (q *Query) precisionNote() string {
	if q.Graph == nil || !q.Graph.HasPrecision() {
		return ""
	}
	p, err := q.Graph.Precision()
	switch {
	case q.known:
		return fmt.Sprintf("the query ended because every group is %s", p)
	case err != nil:
		return ""
	}
	note := fmt.Sprintf("%d of %d groups are %s", p.Known, p.Groups, p)
	if p.Unseen > 0 {
		note += fmt.Sprintf("; %d functions had too few slices", p.Unseen)
	}
	return note
}
