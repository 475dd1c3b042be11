package export

import (
	"sync"
	"sync/atomic"
	"time"

	"endoscope/operators"
	"endoscope/planner"
	"endoscope/server/flow"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// Export is a running CREATE EXPORT. It outlives the statement that created it, and the
// session.
type Export struct {
	Plan    *planner.Export
	Text    string
	Owner   string // the owner's name
	Query   *query.Query
	Created time.Time

	host    host
	figures *figures // nil: it exports spans
	calls   *calls   // nil: it exports figures
	sender  *sender  // nil: nothing is sent

	quit     chan struct{} // closed to end the export at once
	quitOnce sync.Once
	Over     chan struct{} // closed when nothing of the export is attached any more
}

// host runs the queries of exports.
type host interface {
	// Enter adds a query that is about to be started to the engine's list. A refused query
	// is abandoned.
	Enter(q *query.Query) error
	// Leave removes a query that has ended from the list.
	Leave(q *query.Query)
}

// New returns an export of a prepared query, which Start starts.
func New(p *planner.Export, text, owner string, q *query.Query, h host) (*Export, error) {
	e := &Export{Plan: p, Text: text, Owner: owner, Query: q, host: h, quit: make(chan struct{}), Over: make(chan struct{})}
	if p.To != "" {
		t, err := newTransport(p)
		if err != nil {
			return nil, err
		}
		e.sender = newSender(e, t)
	}
	if p.Spans != nil {
		e.calls = newCalls(p, e.sender, q.Tally)
		q.Last = e.calls
	} else {
		e.figures = newFigures(p, q.Tally)
		q.Last = e.figures
		if e.sender != nil {
			e.figures.published = e.sender.setMetrics
		}
	}
	return e, nil
}

// Start starts the query. On an error nothing is attached.
func (e *Export) Start() error {
	e.Query.Grant.Uses().AwaitLog(e.quit)
	if err := e.host.Enter(e.Query); err != nil {
		return err
	}
	e.Created = time.Now()
	if e.figures != nil {
		e.figures.began.Store(e.Created.UnixNano())
	}
	if err := e.Query.Start(); err != nil {
		e.host.Leave(e.Query)
		return err
	}
	if e.sender != nil {
		go e.sender.run()
	}
	return nil
}

// Abandon releases an export that could not be started.
func (e *Export) Abandon() {
	e.Drop()
	e.Query.Abandon()
	if e.sender != nil {
		e.sender.transport.close()
	}
	close(e.Over) // others may have found it by name and wait
}

// Run runs the export until it is dropped. When its query has ended, because its target has,
// the last figures stay.
func (e *Export) Run() {
	select {
	case <-e.Query.Done:
	case <-e.quit:
		e.Query.Cancel()
		<-e.Query.Done
	}
	e.host.Leave(e.Query)
	<-e.quit
	if e.sender != nil {
		e.sender.finish()
	}
	close(e.Over)
}

// Drop asks the export to end now.
func (e *Export) Drop() { e.quitOnce.Do(func() { close(e.quit) }) }

// State returns the state that sys.exports shows.
func (e *Export) State() string {
	select {
	case <-e.quit:
		return "ending"
	default:
	}
	select {
	case <-e.Query.Done:
		if e.Query.Failure() != nil {
			return "failed"
		}
		return "ended"
	default:
		return "running"
	}
}

// Error returns the last error, of the query or of sending; "" if there was none.
func (e *Export) Error() string {
	select {
	case <-e.Query.Done:
		if err := e.Query.Failure(); err != nil {
			return err.Error()
		}
	default:
	}
	if e.sender != nil {
		return e.sender.lastError.get()
	}
	return ""
}

// Series returns the number of exported series, and how many the limit has left out.
func (e *Export) Series() (now int, left uint64) {
	if e.figures == nil {
		return 0, 0
	}
	return e.figures.Snapshot().Len(), e.figures.left.Load()
}

// Sent returns the number of data points and spans that receivers have accepted.
func (e *Export) Sent() uint64 {
	if e.sender == nil {
		return 0
	}
	return e.sender.sent.Load()
}

// Losses returns what was lost, by cause: events, and what was not delivered.
func (e *Export) Losses() []wire.Loss {
	sum := flow.NewTally()
	sum.Merge(e.Query.Tally)
	if e.sender != nil {
		sum.AddLost("spans dropped: the queue is full", e.sender.full.Load())
		sum.AddLost("spans not delivered", e.sender.undelivered.Load())
		sum.AddLost("refused by the receiver", e.sender.rejected.Load())
	}
	if _, left := e.Series(); left > 0 {
		sum.AddLost("series beyond the limit", left)
	}
	return sum.Losses()
}

// Lost returns the sum of Losses.
func (e *Export) Lost() (n uint64) {
	for _, l := range e.Losses() {
		n += l.N
	}
	return n
}

var _ operators.Operator = (*figures)(nil)
var _ operators.Operator = (*calls)(nil)

// lastError holds the last error.
type lastError struct{ text atomic.Pointer[string] }

func (l *lastError) set(err error) {
	text := err.Error()
	l.text.Store(&text)
}

func (l *lastError) get() string {
	if t := l.text.Load(); t != nil {
		return *t
	}
	return ""
}
