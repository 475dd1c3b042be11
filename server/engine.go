package server

import (
	"context"
	"sort"
	"sync"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/container"
	"endoscope/probes/container/runtimes"
	"endoscope/probes/elf"
	"endoscope/probes/entities"
	"endoscope/probes/procfs"
	"endoscope/probes/replay"
	"endoscope/probes/sched"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe"
	"endoscope/probes/variable"
	"endoscope/server/answer"
	"endoscope/server/export"
	"endoscope/server/grant"
	"endoscope/server/handlerstream"
	"endoscope/server/introspect"
	"endoscope/server/query"
	"endoscope/server/sharing"
	"endoscope/server/standing"
	"endoscope/server/store"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// Options of an engine.
type Options struct {
	// RingBytes is the size of the ring buffer between kernel and engine; 0:
	// 16 MiB.
	RingBytes int
	// QueueBatches is the capacity of a query's queue, in batches of up to
	// 1,024 rows. When it is full, live sources drop; 0: 512.
	QueueBatches int
	// ModelDir is the directory of models; "": endoscope/models in the user's
	// state directory.
	ModelDir string
	// Steer, if not nil, decides instead of the costs where the engine's share
	// of a divided query ends, after a number of rows: 0, with the rows of the
	// base; 1, with filters and projections; 2, with the first stage of an
	// aggregate. For tests.
	Steer func(rows uint64) int
	// StateDir is the directory of the definitions of streams, triggers and exports
	// that Restore restores; "": they end with the engine.
	StateDir string
	// Standing has the results of the standing queries that are kept here; nil: there are
	// none. The caller closes it after the engine.
	Standing *standing.Store
	// Metrics is set if the exports to Prometheus are served (Engine.Gather).
	Metrics bool
	// Journal, if not nil, is told of each statement that is executed.
	Journal Journal
}

// Journal records what an engine is doing, for when its process dies. It must be safe for
// concurrent use.
type Journal interface {
	// Begin records that a statement is executed until done is called. An error refuses
	// it.
	Begin(user, statement string) (done func(), err error)
	// Greeting is what a new session is told; "": nothing.
	Greeting() string
}

// Engine runs queries. It is safe for concurrent use.
type Engine struct {
	providers map[string]probes.Provider // by stream
	all       []probes.Provider
	attaches  map[string]bool // streams that attach to processes
	uprobes   *uprobe.Provider
	options   Options
	views     *definitions.Views
	contexts  *definitions.Contexts
	models    *store.Models
	kept      *store.Definitions
	modules   *elf.Cache
	shares    *sharing.Shares
	triggers  *trigger.Registry
	exports   *export.Registry
	system    *introspect.System

	mu      sync.Mutex
	queries map[int64]*query.Query
	nextID  int64
	closed  bool // no query and no trigger may begin any more

	totals totals // of queries that have ended; guarded by mu
}

// Operators use the same clock as events.
func init() { expr.Clock = clock.Now }

// New returns an engine with every provider. Nothing is loaded into the kernel
// before a query needs it.
func New(o Options) (*Engine, error) {
	if o.QueueBatches == 0 {
		o.QueueBatches = 512
	}
	kept, err := store.OpenDefinitions(o.StateDir)
	if err != nil {
		return nil, err
	}
	e := &Engine{kept: kept, options: o, providers: map[string]probes.Provider{}, attaches: map[string]bool{}, views: definitions.NewViews(), contexts: definitions.NewContexts(), models: store.NewModels(o.ModelDir), queries: map[int64]*query.Query{}, modules: &elf.Cache{}, shares: sharing.New(), exports: export.NewRegistry()}
	e.triggers = trigger.NewRegistry(func(key string) bool { return e.views.Get(key) != nil })
	e.uprobes = uprobe.New(uprobe.Options{Match: matchFunction, RingBytes: o.RingBytes})
	container.Default.SetRuntimes(runtimes.Present)
	stacks, lives := stack.New(e.uprobes), sched.New()
	found, followed := &handlerstream.Provider{Stacks: stacks}, &handlerstream.Provider{Stacks: stacks, Forgets: true}
	e.system = &introspect.System{Running: e.running, Shares: e.shares, Triggers: e.triggers, Exports: e.exports, Standing: o.Standing}
	e.all = []probes.Provider{e.uprobes, procfs.New(), stacks, found, &handlerstream.CostProvider{Handlers: followed, Calls: e.uprobes}, lives, entities.New(e.uprobes, lives, e.modules), variable.New(), replay.New(), &introspect.Provider{System: e.system}, &trigger.Provider{All: e.triggers}, &standing.Provider{Store: o.Standing}}
	e.system.Providers = e.all
	for _, streams := range [][]string{e.uprobes.Streams(), stacks.Streams(), {handlerstream.Stream, handlerstream.CostStream}, lives.Streams(), {entities.EntityEvents, entities.ActivityEvents}, {variable.Stream}} {
		for _, s := range streams {
			e.attaches[s] = true
		}
	}
	for _, p := range e.all {
		for _, s := range p.Streams() {
			e.providers[s] = p
		}
	}
	return e, nil
}

// selectSchema types plan.SelectColumns for expressions over functions.
var selectSchema = []types.Type{types.Varchar, types.Varchar, types.Varchar}

// matchFunction compiles a condition on function_name, class and module.
func matchFunction(sel plan.Expr) (func(name, class, module string) (bool, error), error) {
	f, err := expr.CompileFilter(sel, selectSchema)
	if err != nil {
		return nil, err
	}
	var rows []uint16
	b := batch.New(selectSchema)
	return func(name, class, module string) (bool, error) {
		for i := range b.Cols {
			b.Cols[i].Reset()
		}
		b.N = 0
		b.AppendRow(types.Str(name), types.Str(class), types.Str(module))
		rows, err = f.Select(b, rows[:0])
		return len(rows) == 1, err
	}, nil
}

// prepare prepares a query of a plan. It attaches nothing.
func (e *Engine) prepare(ctx context.Context, text string, p *plan.Query) (*query.Query, error) {
	return query.Prepare(ctx, text, p, query.Environment{Providers: e.providers, Shares: e.shares, Batches: e.options.QueueBatches})
}

// Close ends all triggers and queries, and unloads what the providers loaded.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.triggers.Close()
	e.exports.Close()
	// A trigger that cannot be started returns its name to the trigger that had
	// it before, which is listed again only then.
	for all := e.triggers.List(); len(all) > 0; all = e.triggers.List() {
		for _, t := range all {
			t.Drop()
		}
		for _, t := range all {
			<-t.Over
			e.triggers.Leave(t, nil)
		}
	}
	for _, q := range e.running() {
		q.Cancel()
		<-q.Done
	}
	var first error
	for _, p := range e.all {
		if err := p.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// running returns the queries, ordered by id.
func (e *Engine) running() []*query.Query {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*query.Query, 0, len(e.queries))
	for _, q := range e.queries {
		out = append(out, q)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// add adds a query that is about to be started to the engine's list. A refused
// query is abandoned.
func (e *Engine) add(q *query.Query) error {
	// It may change the sources, which other goroutines read from here on.
	if err := q.Gating.Prepare(); err != nil {
		q.Abandon()
		return err
	}
	if err := q.Charge(); err != nil {
		q.Abandon()
		return answer.PlacedAt(err, -1, -1, q.Text)
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.nextID++
		q.ID = e.nextID
		e.queries[q.ID] = q
	}
	e.mu.Unlock()
	if closed {
		q.Abandon()
		return trigger.ErrClosed
	}
	return nil
}

// remove removes a query that has ended from the list. When it returns, the
// query's charges have been returned to its user's account, also if another
// goroutine removed it.
func (e *Engine) remove(q *query.Query) {
	q.Leave(func() (listed bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		listed = e.queries[q.ID] == q
		delete(e.queries, q.ID)
		if listed {
			e.totals.add(q)
		}
		return listed
	})
}

// queryHost runs the queries of triggers and exports in the engine.
type queryHost struct{ e *Engine }

func (h queryHost) Enter(q *query.Query) error { return h.e.add(q) }
func (h queryHost) Leave(q *query.Query)       { h.e.remove(q) }

func (e *Engine) query(id int64) *query.Query {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queries[id]
}

var _ wire.Engine = (*Engine)(nil)

// NewSession opens a session; see wire.Options for its target.
func (e *Engine) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	return newSession(ctx, e, o, nil)
}

// As returns the engine restricted to a grant; closing it does nothing.
func (e *Engine) As(may *grant.Grant) wire.Engine { return granted{e, may} }

type granted struct {
	*Engine
	may *grant.Grant
}

func (g granted) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	return newSession(ctx, g.Engine, o, g.may)
}

func (granted) Close() error { return nil }
