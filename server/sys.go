package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
)

// sysProvider serves the sys streams: what the engine knows of itself.
type sysProvider struct{ e *Engine }

func (p *sysProvider) Streams() []string {
	return []string{"sys.queries", "sys.probes", "sys.drops", "sys.operators", "sys.triggers"}
}

func (p *sysProvider) Close() error { return nil }

func (p *sysProvider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	s := &sysSource{e: p.e, spec: spec, quit: make(chan struct{})}
	cs := catalog.Find(spec.Stream)
	for _, f := range spec.Out.Fields {
		for i, c := range cs.Columns {
			if c.Name == f.Name {
				s.pick = append(s.pick, i)
			}
		}
	}
	return s, nil
}

// sysSource gives one snapshot, or one each interval.
type sysSource struct {
	probes.Base
	e    *Engine
	spec *plan.Acquire
	pick []int // columns of the stream that spec.Out wants
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

// living is how often who reads a sys stream hears how time passes: fleets do not wait
// for an engine that says nothing for seconds, however seldom it has rows.
const living = time.Second

func (s *sysSource) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	s.wg.Go(func() {
		defer sink.End(nil)
		if s.spec.Every == 0 {
			s.give(sink)
			return
		}
		tick := time.NewTicker(s.spec.Every)
		defer tick.Stop()
		live := time.NewTicker(living)
		defer live.Stop()
		for {
			select {
			case <-tick.C:
				s.give(sink)
			case <-live.C:
				sink.Watermark(clock.Now())
			case <-s.quit:
				return
			}
		}
	})
	return nil
}

func (s *sysSource) give(sink probes.Sink) {
	b := batch.New(s.spec.Out.Types())
	for _, row := range s.e.snapshot(s.spec.Stream, whoseOf(s.spec.Target.Viewer)) {
		vs := make([]types.Value, len(s.pick))
		for i, c := range s.pick {
			vs[i] = row[c]
		}
		b.AppendRow(vs...)
		if b.N == batch.MaxRows {
			sink.Push(b)
			b = batch.New(s.spec.Out.Types())
		}
	}
	if b.N > 0 {
		sink.Push(b)
	}
	sink.Watermark(clock.Now())
}

func (s *sysSource) Stop() error {
	s.once.Do(func() { close(s.quit) })
	s.wg.Wait()
	return nil
}

// whose says whose queries a list is of; the zero value: everybody's.
type whose struct {
	one  bool
	user string
}

func whoseOf(v *plan.Viewer) whose {
	if v == nil || v.Name == "" {
		return whose{}
	}
	return whose{true, v.Name}
}

func (w whose) has(user string) bool { return !w.one || w.user == user }

// queriesOf lists the running queries of some users, in order of their ids.
func (e *Engine) queriesOf(w whose) []*query {
	return slices.DeleteFunc(e.running(), func(q *query) bool { return !w.has(q.may.Name()) })
}

// snapshot gives the rows of a sys stream, with all its columns.
func (e *Engine) snapshot(stream string, w whose) [][]types.Value {
	now := types.Time(clock.Now())
	var rows [][]types.Value
	if stream == "sys.triggers" {
		return e.triggerRows(now, w)
	}
	if stream == "sys.probes" {
		users := e.users(w)
		for _, p := range e.all {
			lister, ok := p.(interface{ Probes() []probes.Site })
			if !ok {
				continue
			}
			for _, s := range lister.Probes() {
				n, ids := usersOf(s.Sources, users)
				if n == 0 && w.one {
					continue
				}
				rows = append(rows, []types.Value{now, types.Str(s.Provider), types.Str(s.Function), types.Str(s.Module),
					types.Int(int64(s.Address)), types.Str(s.Method), types.Str(s.Kind), types.Float(s.CostNs),
					types.Int(int64(n)), types.Int(int64(s.Hits)), types.Str(ids)})
			}
		}
		return rows
	}
	for _, q := range e.queriesOf(w) {
		id := types.Int(q.id)
		switch stream {
		case "sys.queries":
			rows = append(rows, []types.Value{now, id, types.Str(q.life.shown()), types.Str(q.text), q.armedAt(),
				types.Int(int64(q.t.rows.Load())), types.Int(int64(q.t.acquired.Load() + q.t.groups.Load())), types.Int(int64(q.t.totalLost())),
				types.Str(listed(among(q.sharedWith(), e.queriesOf(w))))})
		case "sys.drops":
			for _, l := range q.t.losses() {
				rows = append(rows, []types.Value{now, id, types.Str(l.Cause), types.Int(int64(l.N)), types.Bool(true)})
			}
			for _, l := range q.t.counts() {
				rows = append(rows, []types.Value{now, id, types.Str(l.Cause), types.Int(int64(l.N)), types.Bool(false)})
			}
		case "sys.operators":
			if !q.life.started() {
				continue
			}
			for _, st := range q.graph.Stats {
				rows = append(rows, []types.Value{now, id, types.Str(st.Node.Describe()), types.Str(q.site(st.Node)),
					types.Int(int64(st.RowsIn.Load())), types.Int(int64(st.RowsOut.Load())), types.Dur(st.Nanos.Load())})
			}
		}
	}
	return rows
}

// among keeps the ids that are of one of these queries.
func among(ids []int64, all []*query) []int64 {
	return slices.DeleteFunc(ids, func(id int64) bool {
		return !slices.ContainsFunc(all, func(q *query) bool { return q.id == id })
	})
}

// users are the queries of each source that runs.
func (e *Engine) users(w whose) map[probes.Source][]int64 {
	users := e.shares.queries()
	all := e.queriesOf(w)
	for s, ids := range users {
		users[s] = among(ids, all)
	}
	for _, q := range all {
		for _, f := range q.feeds {
			if f.part == nil {
				users[f.source] = []int64{q.id}
			}
		}
	}
	return users
}

// usersOf counts the queries of some sources, and lists them: those that share
// one in brackets.
func usersOf(sources []probes.Source, users map[probes.Source][]int64) (n int, list string) {
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
			list += "(" + listed(ids) + ")"
		} else {
			list += listed(ids)
		}
	}
	return n, list
}
