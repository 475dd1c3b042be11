package standing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

var columns = []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "s", Type: types.Varchar}, {Name: "final", Type: types.Boolean}}

func window(end, revision int64, final bool) wire.StandingWindow {
	w := wire.StandingWindow{Start: end - 1, End: end, Revision: revision, Final: final, Upto: end - 1}
	if final {
		w.Upto = end
	}
	return w
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func create(t *testing.T, s *Store) *Query {
	t.Helper()
	r, err := s.Open(wire.StandingQuery{ID: "00000001", Name: "q", Author: "alice"})
	if err == nil {
		err = r.Begin(columns)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.(*Query)
}

func (q *Query) put(t *testing.T, w wire.StandingWindow, texts ...string) {
	t.Helper()
	var rows []*batch.Batch
	for i, text := range texts {
		if i%batch.MaxRows == 0 {
			rows = append(rows, batch.New([]types.Type{types.Timestamp, types.Varchar, types.Boolean}))
		}
		rows[len(rows)-1].AppendRow(types.Value{Type: types.Timestamp, I: w.End}, types.Str(text), types.Bool(w.Final))
	}
	if err := q.Append(w, rows); err != nil {
		t.Fatal(err)
	}
	for _, b := range rows {
		b.Release()
	}
}

// reader collects what a source pushes.
type reader struct {
	mu    sync.Mutex
	texts []string
	mark  int64
	lost  uint64
	ended bool
}

func (r *reader) Push(b *batch.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.Len() {
		r.texts = append(r.texts, b.Cols[0].Value(b.Row(i)).S)
	}
	b.Release()
}

func (r *reader) Watermark(t int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark = t
}

func (r *reader) Lost(_ string, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost += n
}

func (r *reader) End(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

func (r *reader) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

func (r *reader) Partial(*batch.Batch) {}
func (r *reader) Count(string, uint64) {}

func (r *reader) has(texts []string, mark int64) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Sprint(r.texts) == fmt.Sprint(texts) && r.mark == mark
	}
}

// read starts a source of the column s.
func read(t *testing.T, s *Store, finals, fresh bool) (*reader, probes.Source) {
	t.Helper()
	spec := &plan.Acquire{Args: Args("alice.q", finals, fresh), Out: types.Schema{Fields: []types.Field{{Name: "s", Type: types.Varchar}}, Time: -1}}
	src, err := (&Provider{s}).Prepare(context.Background(), spec)
	r := &reader{}
	if err == nil {
		err = src.Start(context.Background(), r, probes.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Stop() })
	return r, src
}

// A source gives what is stored and what comes, only final rows or all, until the query is
// dropped.
func TestSourcesReadTheLog(t *testing.T) {
	s := open(t, t.TempDir())
	q := create(t, s)
	q.put(t, window(10, 0, false), "a0")
	q.put(t, window(10, 1, true), "a1", "b1")
	all, _ := read(t, s, false, false)
	finals, _ := read(t, s, true, false)
	fresh, _ := read(t, s, true, true)
	testenv.Until(t, "all stored rows are read", all.has([]string{"a0", "a1", "b1"}, 11))
	testenv.Until(t, "the final rows are read", finals.has([]string{"a1", "b1"}, 11))
	q.put(t, window(20, 0, false), "c0")
	q.put(t, window(20, 1, true), "c1")
	testenv.Until(t, "all rows are read", all.has([]string{"a0", "a1", "b1", "c0", "c1"}, 21))
	testenv.Until(t, "the final row is read", finals.has([]string{"a1", "b1", "c1"}, 21))
	testenv.Until(t, "what has come is read", fresh.has([]string{"c1"}, 21))
	if s.Drop(q.ID, "bob"); s.Get("alice.q") == nil {
		t.Error("another author has dropped the query")
	}
	s.Drop(q.ID, "alice")
	testenv.Until(t, "the sources end", func() bool { return all.over() && finals.over() && fresh.over() })
	if len(open(t, s.dir).List()) > 0 {
		t.Error("a query that was dropped is there again")
	}
}

// After a restart the results are there, without one that was being written, and say where
// they end.
func TestResultsOutliveTheDaemon(t *testing.T) {
	s := open(t, t.TempDir())
	q := create(t, s)
	q.put(t, window(10, 0, true), "a")
	q.put(t, window(20, 0, false), "b")
	q.put(t, window(20, 1, false), "b1")
	path := q.log.segments[0].path
	size := q.log.segments[0].size
	q.put(t, window(20, 2, true), "lost")
	s.Close()
	if err := os.Truncate(path, size+20); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.dir)
	q = s.Get("alice.q")
	if q == nil || q.Stored().Upto != 19 || fmt.Sprint(q.Stored().Open) != fmt.Sprint([]wire.StandingWindow{window(20, 1, false)}) {
		t.Fatalf("%+v is stored", q)
	}
	if _, err := s.Open(wire.StandingQuery{ID: "00000002", Name: "q", Author: "alice"}); err == nil {
		t.Error("two queries have one name")
	}
	if err := q.Begin(columns[:2]); err == nil {
		t.Error("other columns are accepted")
	}
	q.put(t, window(20, 2, true), "b2")
	r, _ := read(t, s, false, false)
	testenv.Until(t, "what is stored is read", r.has([]string{"a", "b", "b1", "b2"}, 21))
}

// The oldest results are removed beyond a size, and a source that has not read them counts
// them.
func TestOldResultsAreRemoved(t *testing.T) {
	s := open(t, t.TempDir())
	q := create(t, s)
	q.log.full, q.log.most = 64<<10, 1<<20
	text, r := make([]byte, 4<<10), rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		var texts []string
		for range 10 {
			for k := range text { // it is hardly compressed
				text[k] = byte(r.Uint32()) >> 1
			}
			texts = append(texts, string(text))
		}
		q.put(t, window(int64(i+1)*10, 0, true), texts...)
	}
	_, stored, size := q.State()
	files, _ := filepath.Glob(filepath.Join(q.dir, "*.rows"))
	if stored != 40 || size > q.log.most || len(files) != len(q.log.segments) {
		t.Fatalf("%d results in %d files have %d bytes", stored, len(files), size)
	}
	removed := q.log.segments[0].number - 1
	if removed == 0 {
		t.Fatal("no result was removed")
	}
	all, _ := read(t, s, false, false)
	testenv.Until(t, "the results are read", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return uint64(len(all.texts))/10+removed == 40 && all.lost == removed
	})
}
