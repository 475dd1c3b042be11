package root

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"endoscope/client/fleet"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/standing"
	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// This file has the statements about standing queries. Their results are at the reducers that
// keep them, which execute statements about them as hosts do.

const (
	// standingLife is how long a standing query stays in the bucket.
	standingLife = 366 * 24 * time.Hour
	// taking is how long a reducer may take to begin to keep a query.
	taking = 15 * time.Second
	// mostKeepers is how many reducers may keep a query.
	mostKeepers = 8
)

// noKeepers is the hint where no reducer is there.
const noKeepers = "endoscoped --fleet URL --standing --state DIR keeps them"

func refused(at parser.Node, src, hint, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Src: src, Pos: at.Pos()}
}

// createStanding runs CREATE QUERY.
func (s *session) createStanding(ctx context.Context, st *parser.CreateQuery, src string) (wire.Result, error) {
	name := st.Name.Name
	if _, err := standing.Query(st.Query, src); err != nil {
		return nil, err
	}
	switch {
	case strings.Contains(name, "."):
		return nil, refused(st.Name, src, "owner.name is a query of another user", "the name of a standing query must not contain a dot")
	case catalog.Find(strings.ToLower(name)) != nil:
		return nil, refused(st.Name, src, "choose another name", "%s is a built-in stream, and a standing query's name is also a stream", name)
	}
	keepers := s.e.hosts.keepers()
	if len(keepers) == 0 {
		return nil, refused(st.Name, src, noKeepers, "no daemon of this fleet keeps standing queries")
	}
	known, err := s.e.standing(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(known, func(q *bus.Query) bool { return q.Standing.Name == name }) {
		return nil, refused(st.Name, src, "DROP QUERY "+st.Name.String()+", or choose another name", "there is a standing query %s already", name)
	}
	text := src[st.Query.Start:st.Query.Stop]
	if _, err := s.ask(ctx, &bus.Question{Describe: text, Standing: true}); err != nil {
		return nil, inStatement(err, text, st.Query.Start, src)
	}
	first := map[string]int{} // the number of queries that each is the first keeper of
	for _, q := range known {
		first[bus.ReducerName(q.Standing.Keepers[0])]++
	}
	slices.SortStableFunc(keepers, func(a, b *host) int { return cmp.Compare(first[a.Name], first[b.Name]) })
	id, err := s.publishStanding(ctx, name, text, keepers)
	if err != nil {
		return nil, err
	}
	waits, err := s.awaitStanding(ctx, id, keepers[0])
	if err != nil {
		_ = s.revoke(context.WithoutCancel(ctx), id)
		return nil, err
	}
	if waits != "" {
		return nothing{fmt.Sprintf("standing query %s created, and it waits: %s", name, waits)}, nil
	}
	return nothing{fmt.Sprintf("standing query %s created: SELECT * FROM %s", name, st.Name.String())}, nil
}

// inStatement returns the error of a part of a statement with its place in the whole.
func inStatement(err error, part string, at int, whole string) error {
	var mistake *parser.Error
	if !errors.As(err, &mistake) || mistake.Src != part {
		return err
	}
	c := *mistake
	c.Src = whole
	if c.Pos.Start >= 0 {
		c.Pos = parser.Span{Start: c.Pos.Start + at, Stop: c.Pos.Stop + at}
	}
	return &c
}

// publishStanding stores a standing query in the bucket, for reducers of which the first one
// is to keep it.
func (s *session) publishStanding(ctx context.Context, name, text string, keepers []*host) (id string, err error) {
	kv, err := s.e.queries(ctx)
	if err != nil {
		return "", err
	}
	hosts := s.e.hosts.list()
	q := s.query(text, nil, hosts)
	about := bus.About{Kind: bus.KindQuery, Query: q.ID, Hosts: q.Hosts}
	for _, k := range keepers[:min(len(keepers), mostKeepers)] {
		reducer, _ := bus.Reducer(k.Name)
		about.Keepers = append(about.Keepers, reducer)
	}
	q.Share, q.Hosts, q.Standing = true, nil, &bus.Standing{Name: name, Keepers: about.Keepers}
	value, err := s.e.trust.Seal(about, bus.Encode(q))
	if err == nil {
		_, err = kv.Create(ctx, bus.StandingKey(q.ID), value, jetstream.KeyTTL(standingLife))
	}
	if err != nil {
		return "", fmt.Errorf("the query cannot be published: %w", err)
	}
	return q.ID, nil
}

// awaitStanding waits until a reducer keeps a query and hosts execute it. It returns why the
// query has to wait, if hosts do not execute it yet.
func (s *session) awaitStanding(ctx context.Context, id string, at *host) (waits string, err error) {
	ctx, cancel := context.WithTimeout(ctx, taking)
	defer cancel()
	for kept := false; ; {
		_, rows, err := s.rowsAt(ctx, at, "SELECT id, state, error FROM "+catalog.SysStanding)
		i := slices.IndexFunc(rows, func(r []types.Value) bool { return r[0].S == id })
		if kept = kept || i >= 0; err == nil && i >= 0 && rows[i][1].S != wire.StandingStarting {
			return rows[i][2].S, nil
		}
		switch {
		case pause(ctx, 100*time.Millisecond):
		case kept:
			return "no host answers", nil
		default:
			name, _ := bus.Reducer(at.Name)
			return "", fmt.Errorf("%s does not keep the query: its log says why", name)
		}
	}
}

// dropStanding runs DROP QUERY.
func (s *session) dropStanding(ctx context.Context, st *parser.Drop, src string) (wire.Result, error) {
	known, err := s.e.standing(ctx)
	if err != nil {
		return nil, err
	}
	name := st.Name.Name
	at := slices.IndexFunc(known, func(q *bus.Query) bool { return q.Standing.Name == name })
	switch {
	case at < 0 && st.IfExists:
		return nothing{fmt.Sprintf("there is no %s: nothing dropped", name)}, nil
	case at < 0:
		var names []string
		for _, q := range known {
			names = append(names, q.Standing.Name)
		}
		hint := plan.DidYouMean(name, names)
		if hint == "" {
			hint = "SHOW QUERIES lists them"
		}
		return nil, refused(st.Name, src, hint, "there is no standing query %s", name)
	}
	if err := s.revoke(ctx, known[at].ID); err != nil {
		return nil, err
	}
	return nothing{fmt.Sprintf("standing query %s dropped", name)}, nil
}

// revoke ends a standing query by a tombstone, which stays in the bucket until the query
// would have expired.
func (s *session) revoke(ctx context.Context, id string) error {
	kv, err := s.e.queries(ctx)
	if err != nil {
		return err
	}
	stored, err := kv.Get(ctx, bus.StandingKey(id))
	if err == nil {
		_, _, err = s.e.trust.Open(bus.About{Kind: bus.KindQuery, Query: id}, stored.Value())
	}
	if err != nil {
		return fmt.Errorf("the query cannot be dropped: %w", err)
	}
	tombstone, err := s.e.trust.Seal(bus.About{Kind: bus.KindLease, Query: id}, bus.Encode(bus.Lease{Query: id, Time: time.Now().UnixNano(), Over: true}))
	if err != nil {
		return err
	}
	if _, err := kv.Create(ctx, bus.TombstoneKey(id), tombstone, jetstream.KeyTTL(standingLife)); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("the query cannot be dropped: %w", err)
	}
	_ = s.e.nc.Publish(bus.LeaseSubject(id), tombstone) // hosts hear it at once
	_ = kv.Purge(ctx, bus.StandingKey(id), jetstream.PurgeTTL(time.Hour))
	return nil
}

// standing returns the standing queries of this user, as they are at the bus.
func (e *Engine) standing(ctx context.Context) (all []*bus.Query, err error) {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	stored, err := bus.StandingQueries(ctx, e.nc)
	if err != nil {
		return nil, fmt.Errorf("the standing queries of the fleet are not known: %w", err)
	}
	for _, c := range stored {
		if c.Value == nil {
			continue
		}
		text, _, err := e.trust.Open(bus.About{Kind: bus.KindQuery, Query: c.Query}, c.Value)
		q := &bus.Query{}
		if err == nil && bus.Decode(text, q) == nil && q.ID == c.Query && q.Standing != nil && len(q.Standing.Keepers) > 0 {
			all = append(all, q) // else it is one of another user
		}
	}
	return all, nil
}

// standingNames returns the names of standing queries with a prefix.
func (s *session) standingNames(ctx context.Context, prefix string) (all []string) {
	known, err := s.e.standing(ctx)
	if err != nil {
		return nil
	}
	for _, q := range known {
		if strings.HasPrefix(strings.ToLower(q.Standing.Name), strings.ToLower(prefix)) {
			all = append(all, q.Standing.Name)
		}
	}
	slices.Sort(all)
	return all
}

// keeperOf returns a reducer that has the results of a standing query of one of these names:
// the one that keeps it, if it is alive. nil: none is a standing query.
func (s *session) keeperOf(ctx context.Context, names []string) (*host, error) {
	known, err := s.e.standing(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(known, func(q *bus.Query) bool { return slices.Contains(names, q.Standing.Name) })
	if i < 0 {
		return nil, nil
	}
	q := known[i]
	k, _, err := bus.KeeperOf(ctx, s.e.nc, q.ID)
	if err != nil {
		return nil, fmt.Errorf("who keeps the standing query %s is not known: %w", q.Standing.Name, err)
	}
	var found *host
	for _, h := range s.e.hosts.keepers() {
		name, _ := bus.Reducer(h.Name)
		if slices.Contains(q.Standing.Keepers, name) && (found == nil || name == k.Name) {
			found = h
		}
	}
	if found == nil {
		var silent []string
		for _, name := range q.Standing.Keepers {
			silent = append(silent, fmt.Sprintf("%s (%v)", name, &fleet.Silence{Since: s.e.hosts.lastHeard(bus.ReducerName(name))}))
		}
		return nil, fmt.Errorf("the daemon that keeps the standing query %s is silent: %s", q.Standing.Name, strings.Join(silent, ", "))
	}
	return found, nil
}

// sources returns the streams that a statement reads and the catalog does not have.
func sources(st parser.Statement) (names []string) {
	add := func(id *parser.Ident) {
		if id != nil && catalog.Find(strings.ToLower(id.Name)) == nil {
			names = append(names, id.Name)
		}
	}
	var query func(q *parser.Query)
	source := func(x *parser.Source) {
		for x.Src != nil {
			x = x.Src
		}
		if add(x.Name); x.Query != nil {
			query(x.Query)
		}
	}
	query = func(q *parser.Query) {
		for _, c := range q.With {
			query(c.Query)
		}
		for _, sel := range q.Selects {
			if sel.From == nil {
				continue
			}
			source(sel.From.First)
			for _, j := range sel.From.Joins {
				source(j.Right)
			}
		}
	}
	switch st := st.(type) {
	case *parser.Query:
		query(st)
	case *parser.Explain:
		return sources(st.Of)
	case *parser.Describe:
		if !st.Function {
			add(st.Name)
		}
	}
	return names
}

// showStanding runs SHOW QUERIES.
func (s *session) showStanding(ctx context.Context, st *parser.Show) (wire.Result, error) {
	t := &table{began: time.Now()}
	var failed error
	for _, k := range s.e.hosts.keepers() {
		cols, rows, err := s.rowsAt(ctx, k, "SELECT query, state, hosts, windows, bytes, lost, created, error, statement FROM "+catalog.SysStanding)
		if err != nil {
			failed = err // another one may have the same queries
			continue
		}
		name, _ := bus.Reducer(k.Name)
		t.cols = append(cols, wire.Column{Name: "kept_by", Type: types.Varchar})
		for _, r := range rows {
			if is, err := like(r[0], st.Like); err != nil {
				return nil, err
			} else if is {
				t.rows = append(t.rows, append(r, types.Str(name)))
			}
		}
	}
	if t.cols == nil {
		if failed != nil {
			return nil, failed
		}
		return nil, &parser.Error{Msg: "no daemon of this fleet keeps standing queries", Hint: noKeepers, Pos: parser.Span{Start: -1}}
	}
	return t, nil
}

// like reports whether a name matches the pattern of SHOW; nil: each does.
func like(name types.Value, pattern *parser.Literal) (bool, error) {
	if pattern == nil {
		return true, nil
	}
	v, err := expr.EvalConst(&plan.Call{Fn: "ilike", Args: []plan.Expr{&plan.Const{V: name}, &plan.Const{V: types.Str(pattern.Str)}}, T: types.Boolean})
	return v.I != 0, err
}

// plain returns a session without what this one has set: that is about the hosts.
func (s *session) plain() *session { return &session{e: s.e} }

// at executes a statement at one reducer.
func (s *session) at(ctx context.Context, k *host, text string, args []types.Value) (wire.Result, error) {
	p, err := s.plain().publish(ctx, text, args, false, []*host{k})
	if err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, taking)
	defer cancel()
	r, err := p.Answer(short, k.Name)
	if err != nil {
		p.Close()
		if name, _ := bus.Reducer(k.Name); ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s does not answer", name)
		}
		return nil, err
	}
	p.Settle()
	return &alone{r, p}, nil
}

// alone is the result of one reducer.
type alone struct {
	wire.Result
	p *published
}

// Close implements wire.Result.
func (a *alone) Close() error {
	err := a.Result.Close()
	a.p.Close()
	return err
}

// rowsAt returns all rows of a statement at one reducer.
func (s *session) rowsAt(ctx context.Context, k *host, text string) (cols []wire.Column, rows [][]types.Value, err error) {
	r, err := s.at(ctx, k, text, nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for {
		ev, err := r.Next(ctx)
		switch {
		case err == io.EOF:
			return r.Columns(), rows, nil
		case err != nil:
			return nil, nil, err
		case ev.Batch != nil:
			rows = append(rows, valuesOf(ev.Batch)...)
			ev.Batch.Release()
		}
	}
}

func valuesOf(b *batch.Batch) (rows [][]types.Value) {
	for i := range b.Len() {
		row := make([]types.Value, len(b.Cols))
		for c := range b.Cols {
			row[c] = b.Cols[c].Value(b.Row(i))
		}
		rows = append(rows, row)
	}
	return rows
}
