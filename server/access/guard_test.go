package access

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/planner/types"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

func init() { recheck = time.Hour }

// engineOf is an engine whose sessions do nothing.
type engineOf struct {
	mu       sync.Mutex
	closed   int
	expelled []string
}

func (e *engineOf) As(*grant.Grant) wire.Engine { return idle{e} }
func (e *engineOf) Close() error                { return nil }
func (e *engineOf) Expel(user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expelled = append(e.expelled, user)
}

type idle struct{ *engineOf }

func (i idle) NewSession(context.Context, wire.Options) (wire.Session, error) {
	return &quiet{e: i.engineOf}, nil
}

type quiet struct {
	wire.Session
	e *engineOf
}

// begun receives a value for each statement, and goOn lets the statement end.
var begun, goOn = make(chan bool), make(chan bool)

func (q *quiet) Execute(context.Context, string, ...types.Value) (wire.Result, error) {
	begun <- true
	<-goOn
	return &nothing{e: q.e}, nil
}

// ExecuteSplit returns a result of which the client executes a part.
func (q *quiet) ExecuteSplit(ctx context.Context, _ wire.Path, statement string, args ...types.Value) (wire.Result, error) {
	r, err := q.Execute(ctx, statement, args...)
	return halved{r}, err
}

// ExecuteShare gives a result that is one host's.
func (q *quiet) ExecuteShare(ctx context.Context, _, statement string, args ...types.Value) (wire.Result, error) {
	r, err := q.Execute(ctx, statement, args...)
	return shared{r}, err
}

type shared struct{ wire.Result }

func (shared) Info() wire.Info { return wire.Info{Share: &wire.Share{Plan: []byte("share")}} }

type halved struct{ wire.Result }

func (halved) Info() wire.Info { return wire.Info{Fragment: &wire.Fragment{Plan: []byte("half")}} }

// nothing is an empty result that records that it was closed.
type nothing struct {
	wire.Result
	e *engineOf
}

func (*nothing) Info() wire.Info { return wire.Info{} }

func (n *nothing) Close() error {
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	n.e.closed++
	return nil
}

// executions are the ways to have a session execute a statement.
var executions = map[string]func(context.Context, wire.Session, string) (wire.Result, error){
	"whole": func(ctx context.Context, s wire.Session, statement string) (wire.Result, error) {
		return s.Execute(ctx, statement)
	},
	"divided": func(ctx context.Context, s wire.Session, statement string) (wire.Result, error) {
		return s.(wire.Splitter).ExecuteSplit(ctx, nil, statement)
	},
	"shared": func(ctx context.Context, s wire.Session, statement string) (wire.Result, error) {
		return s.(wire.Sharer).ExecuteShare(ctx, "a", statement)
	},
}

// A statement that starts while its user is being expelled does not survive.
func TestExpelledInAStatement(t *testing.T) {
	for name, execute := range executions {
		t.Run(name, func(t *testing.T) {
			users := filepath.Join(t.TempDir(), "users")
			if err := os.WriteFile(users, []byte("user alice\n role trace\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			a, err := New(Options{Policy: users})
			if err != nil {
				t.Fatal(err)
			}
			e := &engineOf{}
			g := NewGuard(e, a, nil)
			defer g.Close()
			s, err := g.NewSession(t.Context(), wire.Options{User: &wire.User{Name: "alice", Via: "certificate 1"}})
			if err != nil {
				t.Fatal(err)
			}
			over := make(chan error, 1)
			go func() {
				_, err := execute(t.Context(), s, "CREATE TRIGGER ...")
				over <- err
			}()
			<-begun
			if err := os.WriteFile(users, []byte("user bob\n role trace\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			g.expel() // completes before the statement does
			expelled := func() int {
				e.mu.Lock()
				defer e.mu.Unlock()
				return len(e.expelled)
			}
			before := expelled()
			goOn <- true
			if err := <-over; status.Code(err) != codes.Unauthenticated {
				t.Errorf("the statement returns %v", err)
			}
			if n := expelled(); before == 0 || n <= before {
				t.Errorf("alice was expelled %d times before her statement was through, and %d in all", before, n)
			}
			if _, err := execute(t.Context(), s, "SELECT 1"); status.Code(err) != codes.Unauthenticated { // later statements do not start
				t.Errorf("a later statement returns %v", err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.closed != 2 {
				t.Errorf("%d are closed, of the session and the result", e.closed)
			}
		})
	}
}

// guardedSession returns a session of alice, who may trace, with a guarded engine.
func guardedSession(t *testing.T, e Engine) wire.Session {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("user alice\n role trace\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Policy: users})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuard(e, a, nil)
	t.Cleanup(func() { g.Close() })
	s, err := g.NewSession(t.Context(), wire.Options{User: &wire.User{Name: "alice", Via: "certificate 1"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The guard passes on the fragment of a split result, and none for a whole result.
func TestGuardedResultsAreDivided(t *testing.T) {
	s := guardedSession(t, &engineOf{})
	for name, want := range map[string]string{"whole": "", "divided": "half", "shared": "share"} {
		go func() { <-begun; goOn <- true }()
		r, err := executions[name](t.Context(), s, "SELECT 1")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if f := r.Info().Fragment; f != nil {
			got = string(f.Plan)
		}
		if s := r.Info().Share; s != nil {
			got = string(s.Plan)
		}
		if got != want {
			t.Errorf("%s: the client executes %q, want %q", name, got, want)
		}
		_ = r.Close()
	}
}

func (q *quiet) Close() error {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	q.e.closed++
	return nil
}

// repeating is an engine whose results start over from the first row.
type repeating struct{ engineOf }

func (e *repeating) As(*grant.Grant) wire.Engine { return e }
func (e *repeating) NewSession(context.Context, wire.Options) (wire.Session, error) {
	return &repeats{quiet{e: &e.engineOf}}, nil
}

type repeats struct{ quiet }

func (r *repeats) Execute(_ context.Context, statement string, _ ...types.Value) (wire.Result, error) {
	if statement == "live" {
		return &nothing{e: r.e}, nil
	}
	return again{&nothing{e: r.e}}, nil
}

type again struct{ wire.Result }

func (again) Info() wire.Info { return wire.Info{StartsOver: true} }

// The guard passes on whether a result starts over, which decides whether a client
// that has lost its connection resumes it.
func TestGuardedResultsStartOver(t *testing.T) {
	s := guardedSession(t, &repeating{})
	for statement, want := range map[string]bool{"live": false, "SELECT * FROM file('calls.csv')": true} {
		r, err := s.Execute(t.Context(), statement)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Info().StartsOver; got != want {
			t.Errorf("%s: starts over: %t, want %t", statement, got, want)
		}
		_ = r.Close()
	}
}

// When a user's grant changes, what runs with the previous grant ends. Changed limits
// apply to what starts later.
func TestGuardHoldsToTheFile(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(users+".new", users); err != nil {
			t.Fatal(err)
		}
	}
	write("user alice\n role trace\nuser bob\n role read\n")
	a, err := New(Options{Policy: users})
	if err != nil {
		t.Fatal(err)
	}
	e := &engineOf{}
	g := NewGuard(e, a, nil)
	defer g.Close()
	for _, name := range []string{"alice", "bob"} {
		if _, err := g.NewSession(t.Context(), wire.Options{User: &wire.User{Name: name, Via: "certificate 1"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.NewSession(t.Context(), wire.Options{}); err == nil {
		t.Error("a session without a user")
	}
	state := func() string {
		g.expel()
		e.mu.Lock()
		defer e.mu.Unlock()
		return fmt.Sprint(g.Sessions(), e.closed, e.expelled)
	}
	for _, c := range []struct{ file, want string }{
		{"user alice\n role trace\nuser bob\n role read\n", "2 0 []"},
		{"user alice\n role trace\n limits queries=1\nuser bob\n role read\n", "2 0 []"},
		{"user alice\n role read\nuser bob\n role read\n", "1 1 [alice]"},
		{"user alice\n role read\n", "0 2 [alice bob]"},
		{"user alice\n role read\n", "0 2 [alice bob]"},
	} {
		write(c.file)
		if got := state(); got != c.want {
			t.Errorf("after\n%s%s, want %s", c.file, got, c.want)
		}
	}
	if l := a.account("alice", grant.Limits{Queries: 1}).Limits(); l.Queries != 1 {
		t.Errorf("limits %+v", l)
	}
}
