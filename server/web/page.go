package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/server/wire"
)

// Limits of a page.
const (
	mostResults = 16
	notesQueued = 256
	linesQueued = 16
)

// beat is the interval of signs of life and of footers.
const beat = time.Second

// alerts is the number of the result with the rows of the page's triggers.
const alerts = -1

// page is an open page: a session and its results.
type page struct {
	s       *Server
	session wire.Session
	ctx     context.Context // done when the page is closed
	cancel  context.CancelFunc
	lines   chan []byte // to be sent
	notes   chan string
	lost    atomic.Uint64 // notes
	pumps   sync.WaitGroup

	mu      sync.Mutex
	results map[int]*result
	closed  bool
}

// line is a message to the page. Type says what the other fields mean:
//
//	hello  the session is open
//	note   Text is a message of a trigger
//	beat   a sign of life
//	begin  of a result: Columns, Message
//	rows   Rows of a result
//	flush  an emitted result is complete (At: when)
//	notice Text is about a result
//	footer Summary so far
//	end    Summary, or Error
type line struct {
	Type    string   `json:"t"`
	Query   int      `json:"q,omitempty"`
	Text    string   `json:"text,omitempty"`
	Columns []column `json:"columns,omitempty"`
	Replace bool     `json:"replace,omitempty"` // each emitted result takes the place of the one before
	Planned bool     `json:"planned,omitempty"` // its plan can be asked for
	Epoch   string   `json:"epoch,omitempty"`   // ns since 1970, to which times are relative
	Rows    int      `json:"n,omitempty"`
	Preview bool     `json:"preview,omitempty"`
	Words   []words  `json:"words,omitempty"` // new texts of columns
	Cells   []cells  `json:"cells,omitempty"` // by column
	At      int64    `json:"at,omitempty"`    // ns since the epoch
	Summary *footer  `json:"summary,omitempty"`
	Error   *failure `json:"error,omitempty"`
	Target  string   `json:"target,omitempty"`
	Info    []string `json:"info,omitempty"`
}

type column struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Low and High are the columns of the bounds of an estimate; 0: it is none. Bound says
	// that the column is one.
	Low   int  `json:"low,omitempty"`
	High  int  `json:"high,omitempty"`
	Bound bool `json:"bound,omitempty"`
}

// footer is a wire.Summary.
type footer struct {
	Rows    uint64   `json:"rows"`
	Elapsed float64  `json:"elapsed"` // seconds
	Losses  []cause  `json:"losses,omitempty"`
	Counts  []cause  `json:"counts,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Sample  bool     `json:"sample,omitempty"` // the rows are of a sample of the calls
	// Hosts are those of a result of several hosts; nil: none, or as before.
	Hosts []wire.HostState `json:"hosts,omitempty"`
}

type cause struct {
	Cause string `json:"cause"`
	N     uint64 `json:"n"`
}

func footerOf(s wire.Summary) *footer {
	f := &footer{Rows: s.Rows, Elapsed: s.Elapsed.Seconds(), Notes: s.Notes, Sample: s.Sample}
	for _, l := range s.Losses {
		f.Losses = append(f.Losses, cause{l.Cause, l.N})
	}
	for _, l := range s.Counts {
		f.Counts = append(f.Counts, cause{l.Cause, l.N})
	}
	return f
}

// openPage opens the session of a login and sends the lines of the page until its request
// is canceled. A second page of the same login ends the first.
func (s *Server) openPage(w http.ResponseWriter, r *http.Request) {
	l := s.logins.of(r, s.now())
	if l == nil {
		refuse(w, http.StatusUnauthorized, "this page is not logged in")
		return
	}
	if !s.enter() {
		refuse(w, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	defer s.leave()
	// The server sees that a client has gone only after the body was read.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, mostBody)); err != nil {
		refuse(w, http.StatusBadRequest, "the request cannot be read")
		return
	}
	received(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p := &page{s: s, ctx: ctx, cancel: cancel, lines: make(chan []byte, linesQueued), notes: make(chan string, notesQueued), results: map[int]*result{}}
	o := s.o.Session
	session, err := s.engine.NewSession(ctx, wire.Options{PID: o.PID, Process: o.Process, Exe: o.Exe,
		User: l.user, Notify: p.notify, Live: beat, Unread: s.o.Unread})
	if err != nil {
		answerError(w, failureOf(err, "", 0))
		return
	}
	p.session = session
	defer func() {
		l.page.CompareAndSwap(p, nil)
		cancel() // results do not wait for the lines to be sent
		if err := p.end(); err != nil {
			s.o.Log.Warn("closing a page's session failed", "error", err)
		}
	}()
	if before := l.page.Swap(p); before != nil {
		before.cancel()
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	p.follow()
	p.write(w)
}

// notify queues a message of the session's triggers; it does not block.
func (p *page) notify(text string) {
	select {
	case p.notes <- text:
	default:
		p.lost.Add(1)
	}
}

// write sends the lines until the page is closed, does not read, or the server stops.
func (p *page) write(w http.ResponseWriter) {
	out := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(p.s.o.Stall))
		_, err := w.Write(text)
		if err == nil && len(p.lines) == 0 {
			err = out.Flush()
		}
		return err == nil
	}
	if !send(encode(&line{Type: "hello", Target: p.s.o.Target, Info: p.session.Info()})) {
		return
	}
	beats := time.NewTicker(beat)
	defer beats.Stop()
	quiet := true
	for {
		ok := true
		select {
		case text := <-p.lines:
			ok, quiet = send(text), false
		case text := <-p.notes:
			if n := p.lost.Swap(0); n > 0 {
				ok = send(encode(&line{Type: "note", Text: fmt.Sprintf("%d messages were lost, as they were not read", n)}))
			}
			ok = ok && send(encode(&line{Type: "note", Text: text}))
		case <-beats.C:
			if quiet {
				ok = send(encode(&line{Type: "beat"}))
			}
			quiet = true
		case <-p.s.stop:
			send(encode(&line{Type: "note", Text: "the server is shutting down"}))
			ok = false
		case <-p.ctx.Done():
			return
		}
		if !ok {
			return
		}
	}
}

// end closes the session and its results. When it returns, nothing of the page is attached.
func (p *page) end() error {
	p.mu.Lock()
	p.closed = true
	all := p.results
	p.results = map[int]*result{}
	p.mu.Unlock()
	for _, r := range all {
		r.close()
	}
	p.pumps.Wait()
	return p.session.Close()
}

// put queues a line; false: ctx, of the page or of a result, is done.
func (p *page) put(ctx context.Context, l *line) bool {
	select {
	case p.lines <- encode(l):
		return true
	case <-ctx.Done():
		return false
	}
}

func encode(l *line) []byte {
	b, err := json.Marshal(l)
	if err != nil {
		b, _ = json.Marshal(&line{Type: "note", Text: "a line of a result cannot be encoded"})
	}
	return append(b, '\n')
}

// add registers a result under the number that the page has chosen, and starts to send it.
func (p *page) add(n int, r *result) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return failed(http.StatusConflict, "the page's session has ended")
	case p.results[n] != nil:
		return failed(http.StatusConflict, "there is a result of that number")
	case len(p.results) >= mostResults:
		return failed(http.StatusTooManyRequests, fmt.Sprintf("a page has at most %d results: close others", mostResults))
	}
	p.results[n] = r
	r.start()
	return nil
}

func (p *page) result(n int) (*result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.results[n]; r != nil {
		return r, nil
	}
	return nil, failed(http.StatusNotFound, "there is no such result")
}

// follow sends the rows of the triggers that the page creates.
func (p *page) follow() {
	r := newResult(p, alerts, p.session.Triggered(true), false)
	if p.add(alerts, r) != nil {
		r.close()
	}
}

type done struct{}

// query executes one statement; its rows follow as lines.
func (p *page) query(_ context.Context, in ask) (any, error) {
	if in.Query < 1 {
		return nil, failed(http.StatusBadRequest, "the number of a result is positive")
	}
	start := bytesOf(in.Text, in.Start)
	statement := in.Text[start:bytesOf(in.Text, in.Cursor)]
	// The page's context: the result outlives this request.
	res, err := p.session.Execute(p.ctx, statement)
	if err != nil {
		return nil, failureOf(err, in.Text, start)
	}
	r := newResult(p, in.Query, res, replaces(statement))
	if err := p.add(in.Query, r); err != nil {
		r.close()
		return nil, err
	}
	return done{}, nil
}

// stop ends a query; it returns what it has.
func (p *page) stop(_ context.Context, in ask) (any, error) {
	r, err := p.result(in.Query)
	if err == nil {
		r.Stop()
	}
	return done{}, err
}

// drop closes a result.
func (p *page) drop(_ context.Context, in ask) (any, error) {
	p.mu.Lock()
	r := p.results[in.Query]
	delete(p.results, in.Query)
	p.mu.Unlock()
	if r != nil {
		r.close()
	}
	return done{}, nil
}
