package introspect

import (
	"context"
	"slices"
	"sync"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/rows"
	"endoscope/server/answer"
	"endoscope/server/export"
	"endoscope/server/query"
	"endoscope/server/sharing"
	"endoscope/server/standing"
	"endoscope/server/trigger"
)

// System lists the state of the engine, for the sys streams and for SHOW.
type System struct {
	Running   func() []*query.Query // in order of their ids
	Shares    *sharing.Shares
	Triggers  *trigger.Registry
	Exports   *export.Registry
	Standing  *standing.Store
	Providers []probes.Provider
}

// Provider provides the sys streams.
type Provider struct{ System *System }

func (p *Provider) Streams() []string {
	return []string{catalog.SysQueries, catalog.SysProbes, catalog.SysDrops, catalog.SysOperators, catalog.SysTriggers, catalog.SysExports, catalog.SysStanding}
}

func (p *Provider) Close() error { return nil }

func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	s := &sysSource{of: p.System, spec: spec, quit: make(chan struct{})}
	var err error
	s.rows, err = rows.Values(spec.Stream).Writer(spec, 0)
	return s, err
}

// sysSource delivers one snapshot, or one each interval.
type sysSource struct {
	probes.Base
	of   *System
	spec *plan.Acquire
	rows *rows.Writer[rows.Row]
	quit chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

// Info implements probes.Source.
func (s *sysSource) Info() probes.Info {
	return probes.Info{
		Sites:    []probes.Site{{Provider: "sys", Function: s.spec.Stream, Method: "counters", Kind: "snapshot"}},
		Residual: s.spec.Filter, Live: s.spec.Every > 0,
	}
}

// living is the interval of watermarks of a sys stream. A query over several
// hosts does not wait for an engine that is silent for seconds, however long
// the interval of its rows.
const living = time.Second

func (s *sysSource) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	s.wg.Go(func() {
		defer sink.End(nil)
		if s.spec.Every == 0 {
			s.sendSnapshot(sink)
			return
		}
		tick := time.NewTicker(s.spec.Every)
		defer tick.Stop()
		live := time.NewTicker(living)
		defer live.Stop()
		for {
			select {
			case <-tick.C:
				s.sendSnapshot(sink)
			case <-live.C:
				sink.Watermark(clock.Now())
			case <-s.quit:
				return
			}
		}
	})
	return nil
}

func (s *sysSource) sendSnapshot(sink probes.Sink) {
	s.rows.Push = sink.Push
	for _, row := range s.of.Snapshot(s.spec.Stream, UsersOf(s.spec.Target.Viewer)) {
		s.rows.Put(row)
	}
	s.rows.Flush()
	sink.Watermark(clock.Now())
}

func (s *sysSource) Stop() error {
	s.once.Do(func() { close(s.quit) })
	s.wg.Wait()
	return nil
}

// Users restricts a list to the queries of one user; the zero value: all users.
type Users struct {
	one  bool
	user string
}

func UsersOf(v *plan.Viewer) Users {
	if v == nil || v.Name == "" {
		return Users{}
	}
	return Users{true, v.Name}
}

func (w Users) has(user string) bool { return !w.one || w.user == user }

// queriesOf lists the running queries of some users, in order of their ids.
func (e *System) queriesOf(w Users) []*query.Query {
	return slices.DeleteFunc(e.Running(), func(q *query.Query) bool { return !w.has(q.Grant.Name()) })
}

// Snapshot returns the rows of a sys stream, with all its columns.
func (e *System) Snapshot(stream string, w Users) [][]types.Value {
	now := clock.Now()
	switch stream {
	case catalog.SysTriggers:
		return triggerTable.All(e.triggerRows(now, w))
	case catalog.SysExports:
		return exportTable.All(e.exportRows(now, w))
	case catalog.SysStanding:
		return standingTable.All(e.standingRows(now, w))
	case catalog.SysProbes:
		return probeTable.All(e.probeRows(now, w))
	}
	var queries []queryRow
	var drops []dropRow
	var ops []operatorRow
	for _, q := range e.queriesOf(w) {
		switch stream {
		case catalog.SysQueries:
			queries = append(queries, queryRow{now, q, intersect(q.SharedWith(), e.queriesOf(w))})
		case catalog.SysDrops:
			for _, l := range q.Tally.Losses() {
				drops = append(drops, dropRow{now, q.ID, l, true})
			}
			for _, l := range q.Tally.Counts() {
				drops = append(drops, dropRow{now, q.ID, l, false})
			}
		case catalog.SysOperators:
			if !q.Life.Started() {
				continue
			}
			for _, st := range q.Graph.Stats {
				ops = append(ops, operatorRow{now, q, st})
			}
		}
	}
	return slices.Concat(queryTable.All(queries), dropTable.All(drops), operatorTable.All(ops))
}

// probeRows returns the rows of sys.probes.
func (e *System) probeRows(now int64, w Users) (out []probeRow) {
	users := e.Users(w)
	for _, p := range e.Providers {
		lister, ok := p.(interface{ Probes() []probes.Site })
		if !ok {
			continue
		}
		for _, s := range lister.Probes() {
			n, ids := QueriesOf(s.Sources, users)
			if n == 0 && w.one {
				continue
			}
			out = append(out, probeRow{now, s, n, ids})
		}
	}
	return out
}

// intersect returns the ids that belong to one of these queries.
func intersect(ids []int64, all []*query.Query) []int64 {
	return slices.DeleteFunc(ids, func(id int64) bool {
		return !slices.ContainsFunc(all, func(q *query.Query) bool { return q.ID == id })
	})
}

// Users returns the queries of each running source.
func (e *System) Users(w Users) map[probes.Source][]int64 {
	users := e.Shares.Queries()
	all := e.queriesOf(w)
	for s, ids := range users {
		users[s] = intersect(ids, all)
	}
	for _, q := range all {
		for _, f := range q.Feeds {
			if f.Part == nil {
				users[f.Source] = []int64{q.ID}
			}
		}
	}
	return users
}

// QueriesOf counts the queries of some sources, and formats a list of them:
// those that share a source are in brackets.
func QueriesOf(sources []probes.Source, users map[probes.Source][]int64) (n int, list string) {
	var of [][]int64
	for _, s := range sources {
		if ids := users[s]; len(ids) > 0 {
			of = append(of, ids)
			n += len(ids)
		}
	}
	slices.SortFunc(of, slices.Compare)
	for i, ids := range of {
		if i > 0 {
			list += ", "
		}
		if len(ids) > 1 {
			list += "(" + answer.FormatIDs(ids) + ")"
		} else {
			list += answer.FormatIDs(ids)
		}
	}
	return n, list
}

// triggerRows returns the rows of sys.triggers.
func (e *System) triggerRows(now int64, w Users) (out []triggerRow) {
	for _, t := range e.Triggers.List() {
		if !w.has(t.Owner) {
			continue
		}
		row := triggerRow{at: now, t: t}
		row.skipped, row.arming = t.Arming()
		out = append(out, row)
	}
	return out
}

// exportRows returns the rows of sys.exports.
func (e *System) exportRows(now int64, w Users) (out []exportRow) {
	for _, x := range e.Exports.List() {
		if w.has(x.Owner) {
			n, left := x.Series()
			out = append(out, exportRow{now, x, n, left})
		}
	}
	return out
}

// standingRows returns the rows of sys.standing_queries.
func (e *System) standingRows(now int64, w Users) (out []standingRow) {
	for _, q := range e.Standing.List() {
		if w.has(q.Owner()) {
			st, windows, bytes := q.State()
			out = append(out, standingRow{now, q, st, windows, bytes})
		}
	}
	return out
}
