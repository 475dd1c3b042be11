package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"endoscope/operators/batch"
	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// fakeEngine has sessions whose statements are SQL only by name: "rows" returns endless
// rows, "wrong" is refused at its second word, anything else returns one row.
type fakeEngine struct {
	sessions atomic.Int64 // open
	results  atomic.Int64 // open
	user     atomic.Pointer[wire.User]
}

func (e *fakeEngine) NewSession(_ context.Context, o wire.Options) (wire.Session, error) {
	e.sessions.Add(1)
	e.user.Store(o.User)
	return &fakeSession{e: e, notify: o.Notify}, nil
}

func (e *fakeEngine) Close() error { return nil }

type fakeSession struct {
	e      *fakeEngine
	notify func(string)
}

func (s *fakeSession) Execute(_ context.Context, text string, _ ...types.Value) (wire.Result, error) {
	if strings.HasPrefix(text, "wrong ") {
		return nil, &parser.Error{Msg: "this is wrong", Hint: "right", Src: text, Pos: parser.Span{Start: 6, Stop: len(text)}}
	}
	if text == "tell" {
		s.notify("a message")
	}
	s.e.results.Add(1)
	r := &fakeResult{e: s.e, done: make(chan struct{})}
	r.endless.Store(text == "rows")
	return r, nil
}

func (s *fakeSession) Describe(ctx context.Context, text string) (wire.Description, error) {
	return wire.Description{}, nil
}

func (s *fakeSession) Complete(_ context.Context, kind, _, prefix string) []string {
	if kind == "stream" && strings.HasPrefix("function_start", prefix) {
		return []string{"function_start"}
	}
	return nil
}

func (s *fakeSession) Info() []string { return []string{"a fake"} }

func (s *fakeSession) Triggered(bool) wire.Result {
	s.e.results.Add(1)
	return &fakeResult{e: s.e, waits: true, done: make(chan struct{})}
}

func (s *fakeSession) Close() error { s.e.sessions.Add(-1); return nil }

type fakeResult struct {
	e       *fakeEngine
	endless atomic.Bool
	waits   bool
	n       atomic.Int64
	closed  atomic.Bool
	done    chan struct{}
}

func (r *fakeResult) Columns() []wire.Column {
	return []wire.Column{{Name: "n", Type: types.Bigint}, {Name: "name", Type: types.Varchar}}
}
func (r *fakeResult) Message() string { return "" }
func (*fakeResult) Info() wire.Info   { return wire.Info{} }

func (r *fakeResult) Next(ctx context.Context) (wire.Event, error) {
	if r.waits {
		select {
		case <-ctx.Done():
		case <-r.done:
		}
		return wire.Event{}, io.EOF
	}
	if r.closed.Load() || !r.endless.Load() && r.n.Load() > 0 {
		return wire.Event{}, io.EOF
	}
	b := batch.New([]types.Type{types.Bigint, types.Varchar})
	for range 512 {
		b.AppendRow(types.Int(r.n.Add(1)), types.Str("a name of a function that is rather long"))
		if !r.endless.Load() {
			break
		}
	}
	return wire.Event{Kind: wire.Rows, Batch: b}, nil
}

func (r *fakeResult) Stop() { r.endless.Store(false) }

func (r *fakeResult) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		close(r.done)
		r.e.results.Add(-1)
	}
	return nil
}

func (r *fakeResult) Summary() wire.Summary { return wire.Summary{Rows: uint64(r.n.Load())} }

// serve serves an engine on the loopback and returns its address.
func serve(t *testing.T, e wire.Engine, o Options) (s *Server, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = New(e, o)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, false) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ctx)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// caller is a page without a browser.
type caller struct {
	t    *testing.T
	addr string
	key  string
}

// post calls the server and returns the status and the answer.
func (c *caller) post(what string, body any) (int, map[string]any) {
	c.t.Helper()
	answer := c.do(c.t.Context(), what, body, nil)
	defer answer.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	return answer.StatusCode, out
}

func (c *caller) do(ctx context.Context, what string, body any, change func(*http.Request)) *http.Response {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addr+"/api/"+what, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Origin", "http://"+c.addr)
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// loggedIn logs a caller in by a link.
func loggedIn(t *testing.T, s *Server, addr string) *caller {
	t.Helper()
	c := &caller{t: t, addr: addr}
	status, out := c.post("login", map[string]string{"token": tokenOf(s)})
	if status != http.StatusOK {
		t.Fatalf("login: %d %v", status, out)
	}
	c.key = out["key"].(string)
	return c
}

func tokenOf(s *Server) string { return strings.TrimPrefix(s.Link(), "/#token=") }

// open opens the page and returns its lines; close closes it.
func (c *caller) open() (lines *bufio.Scanner, close func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	answer := c.do(ctx, "open", struct{}{}, nil)
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("open: %s", answer.Status)
	}
	lines = bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	c.next(lines, "hello")
	return lines, func() { cancel(); answer.Body.Close() }
}

// next returns the next line of a kind.
func (c *caller) next(lines *bufio.Scanner, kind string) map[string]any {
	c.t.Helper()
	for lines.Scan() {
		var l map[string]any
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			c.t.Fatal(err)
		}
		if l["t"] == kind {
			return l
		}
	}
	c.t.Fatalf("no line %s: %v", kind, lines.Err())
	return nil
}
