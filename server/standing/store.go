package standing

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"endoscope/planner/definitions"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// Store keeps standing queries in a directory. It implements wire.StandingStore, and is safe
// for concurrent use. A nil store is empty.
type Store struct {
	dir   string
	owner func(author string) string

	mu  sync.Mutex
	all map[string]*Query // by id
}

// Query is a standing query with its stored results.
type Query struct {
	wire.StandingQuery
	Columns []wire.Column `json:"columns,omitempty"` // nil: not known yet

	key string // its qualified name
	dir string

	mu      sync.Mutex
	log     *log
	changed chan struct{} // closed when something is stored, or the query is dropped
	dropped bool
	windows uint64 // results stored since it was opened
	state   wire.StandingState
	stored  *wire.StandingStored
}

const description = "query.json"

// Open opens the store in a directory. owner returns how the engine calls an author of the
// fleet; nil: by the same name.
func Open(dir string, owner func(author string) string) (*Store, error) {
	if owner == nil {
		owner = func(author string) string { return author }
	}
	s := &Store{dir: dir, owner: owner, all: map[string]*Query{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), description))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was being created or dropped
		}
		q := &Query{dir: filepath.Join(dir, e.Name())}
		if err == nil {
			err = json.Unmarshal(text, q)
		}
		if err == nil {
			err = s.add(q)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.dir, err)
		}
		q.state.State = wire.StandingKept
	}
	return s, nil
}

// add opens the log of a query. The caller holds s.mu, or has the store alone.
func (s *Store) add(q *Query) (err error) {
	q.key, q.changed = definitions.Qualify(s.owner(q.Author), q.Name), make(chan struct{})
	q.state.State = wire.StandingStarting
	if q.log, q.stored, err = openLog(q.dir); err == nil {
		s.all[q.ID] = q
	}
	return err
}

// validID keeps ids, which are names of directories, from naming others.
var validID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// Open implements wire.StandingStore.
func (s *Store) Open(as wire.StandingQuery) (wire.StandingResults, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.all[as.ID]; q != nil {
		return q, nil
	}
	key := definitions.Qualify(s.owner(as.Author), as.Name)
	for _, q := range s.all {
		if q.key == key {
			return nil, fmt.Errorf("there is a standing query %s already", as.Name)
		}
	}
	if !validID.MatchString(as.ID) || as.Name == "" || strings.Contains(as.Name, ".") {
		return nil, fmt.Errorf("the name or the id of the standing query %q is not valid", as.Name)
	}
	q := &Query{StandingQuery: as, dir: filepath.Join(s.dir, as.ID)}
	if err := os.MkdirAll(q.dir, 0o700); err != nil {
		return nil, err
	}
	if err := q.describe(); err != nil {
		return nil, err
	}
	return q, s.add(q)
}

// describe writes the description of the query.
func (q *Query) describe() error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	file := filepath.Join(q.dir, description)
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Drop implements wire.StandingStore.
func (s *Store) Drop(id, author string) {
	s.mu.Lock()
	q := s.all[id]
	if q == nil || q.Author != author {
		s.mu.Unlock()
		return
	}
	delete(s.all, id)
	s.mu.Unlock()
	q.mu.Lock()
	q.dropped = true
	close(q.changed)
	q.log.close()
	q.mu.Unlock()
	_ = os.Remove(filepath.Join(q.dir, description)) // without it the rest is not opened again
	_ = os.RemoveAll(q.dir)
}

// Close closes the files. Sources end.
func (s *Store) Close() {
	for _, q := range s.List() {
		q.mu.Lock()
		q.log.close()
		q.mu.Unlock()
	}
}

// List returns the queries, by their qualified names.
func (s *Store) List() (all []*Query) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.all {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *Query) int { return strings.Compare(a.key, b.key) })
	return all
}

// Get returns the query with a qualified name; nil: there is none.
func (s *Store) Get(key string) *Query {
	for _, q := range s.List() {
		if q.key == key {
			return q
		}
	}
	return nil
}

// IDOf returns the id of the query with a qualified name, which is the same at all daemons that
// have its results; "": there is none.
func (s *Store) IDOf(key string) string {
	if q := s.Get(key); q != nil {
		return q.ID
	}
	return ""
}

// Names returns the qualified names of queries that can be read.
func (s *Store) Names() (names []string) {
	for _, q := range s.List() {
		names = append(names, q.key)
	}
	return names
}

// Columns returns the columns of the query with a qualified name, as fields; nil: there is no
// such query. known is false if its columns are not known yet.
func (s *Store) Columns(key string) (fields []types.Field, found, known bool) {
	q := s.Get(key)
	if q == nil {
		return nil, false, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.Columns {
		fields = append(fields, types.Field{Name: c.Name, Type: c.Type, Bound: c.Bound})
	}
	return fields, true, len(fields) > 0
}

// Owner returns who owns the query, as the engine calls the user.
func (q *Query) Owner() string {
	owner, _ := definitions.Split(q.key)
	return owner
}

// State returns how the query is doing, how many results were stored since it was opened, and
// the size of all that are stored.
func (q *Query) State() (st wire.StandingState, windows uint64, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state, q.windows, q.log.size()
}

// Begin implements wire.StandingResults.
func (q *Query) Begin(columns []wire.Column) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Columns == nil {
		q.Columns = columns
		return q.describe()
	}
	if !slices.Equal(q.Columns, columns) {
		return fmt.Errorf("its columns are others than those of the stored results: DROP QUERY %s, and create it again", q.Name)
	}
	return nil
}

// Stored implements wire.StandingResults.
func (q *Query) Stored() *wire.StandingStored {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stored
}

// Next implements wire.StandingResults.
func (q *Query) Next() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.log.end()
}

// Append implements wire.StandingResults.
func (q *Query) Append(r wire.StandingRecord) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped {
		return errors.New("the query was dropped")
	}
	if r.Number < q.log.end() {
		return nil
	}
	if err := q.log.append(r); err != nil {
		return err
	}
	q.windows++
	q.stored = after(q.stored, r.Window)
	close(q.changed)
	q.changed = make(chan struct{})
	return nil
}

// after returns where stored results end after another one.
func after(s *wire.StandingStored, w wire.StandingWindow) *wire.StandingStored {
	out := &wire.StandingStored{Upto: w.Upto}
	if s != nil {
		out.Open = slices.Clone(s.Open)
	}
	out.Open = slices.DeleteFunc(out.Open, func(o wire.StandingWindow) bool { return o.Start == w.Start && o.End == w.End })
	out.Open = append(out.Open, w)
	out.Open = slices.DeleteFunc(out.Open, func(o wire.StandingWindow) bool { return o.End <= out.Upto })
	return out
}

// Report implements wire.StandingResults.
func (q *Query) Report(s wire.StandingState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state = s
}

// Describe lists the columns of the query's stream.
func (q *Query) Describe() *answer.Table {
	rel := answer.NewTable(answer.Text("column"), answer.Text("type"))
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.Columns {
		rel.Add(types.Str(c.Name), types.Str(c.Type.String()))
	}
	rel.Notices = []string{q.Name + ": " + q.Statement}
	return rel
}
