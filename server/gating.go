package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"endoscope/operators"
	"endoscope/planner"
	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/gate"
)

// gating decides which inputs of a query's window joins are acquired all the
// time, and which only behind a gate that another opens (EndoScope, section 5.3).
//
// All gates that any of its plans needs are there from the start; a plan is which
// of them are held open by force, so that to change it changes words in memory
// and nothing is lost or seen twice. Once a second it looks at what happened,
// and chooses again.
type gating struct {
	ways   []plan.Gating // both for each join, as the planner lists them
	edges  []*edge       // those that can be taken
	inputs []*gatedInput
	plans  []joinPlan // the first acquires everything
	inForce
	mode      string      // SET join_plan
	mayAttach func() bool // the query is in a phase in which probes may be attached and detached
	feeds     []*feed     // of the query

	gates gatesPhase
	set   *gate.Set // of gates that are made

	stop  chan struct{}
	ended sync.Once
	done  sync.WaitGroup
}

// gatesPhase says whether there are gates. They are made once, by the query's owner
// before it runs, and freed under gating.mu when it has ended. A gating that needs none
// has never any.
type gatesPhase uint8

const (
	gatesAbsent gatesPhase = iota
	gatesMade
	gatesFreed
)

// inForce is what changes while the query runs.
type inForce struct {
	mu       sync.Mutex
	chooser  cost.Chooser
	current  int
	switches []planSwitch
	troubles []string // with what was to be attached again
	began    time.Time
	at       time.Time // of the last evaluation
	// evaluations are those since the plan was put into force.
	evaluations int
	ticks       ticks
	spent       int64 // of processors by this process until the last evaluation, ns
}

// edge is a way in which one input opens another's gate.
type edge struct {
	plan.Gating
	way           int // index of ways
	opener, gated int // inputs
	gate          *gate.Gate
	holder        *holder // where the gated one's rows are held
	needed        cost.Mean
	openings      cost.Mean     // a second
	was           int64         // ns opened, at the last evaluation
	wasTimes      uint64        // openings, then
	open          time.Duration // for which the input was acquired
	mu            sync.Mutex    // guards what follows
	rows, latency int64         // of the opener that opened the gate, and their delays in all, ns
	worst         int64         // ns
	detaching
}

// gatedInput is an acquisition that takes part.
type gatedInput struct {
	feed   *feed
	name   string
	source probes.Source // nil: an opener that has nothing to do with gates
	gated  bool          // it passes or opens gates itself
	rate   cost.Mean
	// awaited and rows are shares of the calls that were acquired: those whose
	// return was awaited, and those that gave rows.
	awaited, rows cost.Mean

	// As of the last evaluation.
	was     probes.Activity
	wasRows uint64
	flips   int
}

// joinPlan is one way to acquire all inputs.
type joinPlan struct {
	name     string
	edges    []int
	strategy cost.Strategy
}

// planSwitch is a change of plan.
type planSwitch struct {
	after          time.Duration
	from, to       int
	before, expect float64 // costs, ns per second
}

// maxPlans bounds how many plans are considered: of further joins both inputs
// are acquired all the time.
const maxPlans = 32

// evaluateEvery is how often plans are compared.
const evaluateEvery = cost.Every

// newGating looks for ways to gate the joins of a query's plan, of which text is the
// statement; nil if it has none. mayAttach reports whether the query is in a phase in
// which probes may be attached and detached.
func newGating(feeds []*feed, root plan.Node, text string, mayAttach func() bool) (*gating, error) {
	if !slices.ContainsFunc(feeds, func(f *feed) bool { return f.ownInfo.Gateable }) {
		return nil, nil
	}
	settings := feeds[0].spec.Settings
	g := &gating{mode: settings.JoinPlan, feeds: feeds, mayAttach: mayAttach, stop: make(chan struct{})}
	g.ways = planner.Gatings(root, g.ability, settings.JoinGated)
	if len(g.ways) == 0 {
		return nil, nil
	}
	for i := range g.ways {
		g.consider(i, settings.JoinGated)
	}
	g.enumerate()
	if err := g.force(); err != nil {
		return nil, planner.Placed(err, text)
	}
	return g, nil
}

func (g *gating) feedOf(a *plan.Acquire) *feed {
	for _, f := range g.feeds {
		if f.spec == a {
			return f
		}
	}
	return nil
}

// ability is what the source of an acquisition can do about gates.
func (g *gating) ability(a *plan.Acquire) plan.Ability {
	if f := g.feedOf(a); f != nil && f.ownInfo.Gateable {
		return f.ownInfo.Ability
	}
	return plan.Ability{Why: fmt.Sprintf("%s cannot be shut", a.Stream), Closed: fmt.Sprintf("the conditions on %s are not tested in the kernel", a.Stream)}
}

// consider makes an edge of a way that can be taken, and says why of one that
// cannot.
func (g *gating) consider(i int, inexact bool) {
	w := &g.ways[i]
	if w.Refused != "" {
		return
	}
	if !w.Exact && !inexact {
		w.Refused = w.Inexact
		return
	}
	for _, e := range g.edges {
		if e.Gated == w.Gated {
			w.Refused = fmt.Sprintf("the gate of %s is opened by %s", w.GatedName, e.OpenerName)
			return
		}
	}
	if w.Kernel && g.opens(w.Opener) == probes.MaxOpened {
		w.Refused = fmt.Sprintf("%s opens %d other gates", w.OpenerName, probes.MaxOpened)
		return
	}
	g.edges = append(g.edges, &edge{Gating: *w, way: i, opener: g.input(w.Opener, w.OpenerName), gated: g.input(w.Gated, w.GatedName)})
}

// opens is how many gates an acquisition opens in the kernel.
func (g *gating) opens(a *plan.Acquire) (n int) {
	for _, e := range g.edges {
		if e.Kernel && e.Opener == a {
			n++
		}
	}
	return n
}

// input is the index of an acquisition among the inputs.
func (g *gating) input(a *plan.Acquire, name string) int {
	f := g.feedOf(a)
	i := slices.IndexFunc(g.inputs, func(in *gatedInput) bool { return in.feed == f })
	if i < 0 {
		i = len(g.inputs)
		in := &gatedInput{feed: f, name: name}
		if f.ownInfo.Gateable {
			in.source = f.own
		}
		g.inputs = append(g.inputs, in)
	}
	return i
}

// enumerate lists the plans: for each join both inputs all the time, or one of
// its edges.
func (g *gating) enumerate() {
	g.plans = []joinPlan{{}}
	for i := 0; i < len(g.ways); i += 2 { // a join has two
		var with []joinPlan
		for _, side := range []struct {
			name string
			edge int
		}{
			{"all", -1},
			{"left", slices.IndexFunc(g.edges, func(e *edge) bool { return e.way == i })},
			{"right", slices.IndexFunc(g.edges, func(e *edge) bool { return e.way == i+1 })},
		} {
			if side.name != "all" && (side.edge < 0 || len(g.plans)*2 > maxPlans) {
				continue
			}
			for _, p := range g.plans {
				p.edges = slices.Clone(p.edges)
				if p.name != "" {
					p.name += ", "
				}
				p.name += side.name
				if side.edge >= 0 {
					p.edges = append(p.edges, side.edge)
				}
				with = append(with, p)
			}
		}
		g.plans = with
	}
	for i := range g.plans {
		p := &g.plans[i]
		p.strategy = cost.AllOn(len(g.inputs))
		for _, e := range p.edges {
			p.strategy[g.edges[e].gated] = g.edges[e].opener
		}
	}
}

// force heeds SET join_plan: left and right ask for that side first in every join.
func (g *gating) force() error {
	if g.mode != "left" && g.mode != "right" {
		return nil
	}
	var names []string
	for i := range g.ways {
		w := &g.ways[i]
		if w.Left != (g.mode == "left") {
			continue
		}
		names = append(names, g.mode)
		if w.Refused == "" {
			continue
		}
		e := plan.Errorf(-1, -1, "join_plan = %s is not possible: %s", g.mode, w.Refused)
		if w.Inexact != "" {
			return e.WithHint("SET join_gating = 'gated' accepts that; SET join_plan = 'auto' takes what is possible")
		}
		return e.WithHint("SET join_plan = 'auto' takes what is possible")
	}
	name := strings.Join(names, ", ")
	g.current = slices.IndexFunc(g.plans, func(p joinPlan) bool { return p.name == name })
	if g.current < 0 {
		return plan.Errorf(-1, -1, "join_plan = %s is not possible for so many joins", g.mode)
	}
	return nil
}

// prepare makes the gates and gives them to the sources, before these load
// anything. Everything is acquired until start. A second call does nothing.
func (g *gating) prepare() error {
	if g == nil || len(g.edges) == 0 || g.mode == "all" || g.gates != gatesAbsent {
		return nil
	}
	var err error
	if g.set, err = gate.NewSet(len(g.edges), g.inKernel()); err != nil {
		return err
	}
	g.gates = gatesMade
	gates := make([]probes.Gates, len(g.inputs))
	for i, e := range g.edges {
		e.gate = g.set.Gate(i)
		e.gate.Force(true)
		own := &gates[e.gated]
		own.Set = g.set
		if e.Way == plan.Holding {
			f := g.inputs[e.gated].feed
			e.holder = newHolder(f, e.gate, int64(e.Before), f.spec.Out.Time, f.q.limit/2)
			f.holder = e.holder
		} else {
			own.Own, own.Way = e.gate, e.Way
			g.detachable(e)
			own.Detaches = e.source != nil
		}
		if e.Kernel {
			by := &gates[e.opener]
			by.Set = g.set
			by.Opens = append(by.Opens, probes.Opened{Gate: e.gate, Within: e.Within})
		}
	}
	for i, in := range g.inputs {
		if gates[i].Set != nil {
			in.feed.unshare() // others would be shut out, too
			in.feed.options.Gates = gates[i]
			in.gated = true
		}
	}
	return nil
}

// inKernel reports whether programs in the kernel look at a gate or open one.
func (g *gating) inKernel() bool {
	return slices.ContainsFunc(g.edges, func(e *edge) bool { return e.Kernel || e.Way == plan.AtEntry })
}

// tap is what opens the gates that the engine opens.
func (g *gating) tap(j *plan.Join, port int) *operators.Tap {
	if g == nil {
		return nil
	}
	for _, e := range g.edges {
		if e.gate == nil || e.Join != j || e.Kernel || e.Left != (port == 0) {
			continue
		}
		if e.holder != nil {
			return &operators.Tap{
				Rows:      func(t int64) { e.holder.arrived(t, int64(e.Within)) },
				Watermark: e.holder.passed,
			}
		}
		return &operators.Tap{Rows: e.arrived, Watermark: func(int64) {}}
	}
	return nil
}

// arrived opens the gate for a row that happened at t.
func (e *edge) arrived(t int64) {
	now := clock.Now()
	e.gate.Open(now, now+int64(e.Within))
	late := max(0, now-t)
	e.mu.Lock()
	e.rows++
	e.latency += late
	e.worst = max(e.worst, late)
	e.mu.Unlock()
}

// start puts the first plan into force, now that every source is armed.
func (g *gating) start() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.began, g.at, g.spent = time.Now(), time.Now(), clock.ProcessTime()
	g.enforce(g.current)
	g.mu.Unlock()
	if g.gates == gatesMade {
		g.done.Go(g.run)
		for _, e := range g.edges {
			if e.source != nil {
				g.done.Go(func() { g.flips(e) })
			}
		}
	}
}

// enforce forces the gates open that a plan does not use, before it lets go of
// those that it does. g.mu is held.
func (g *gating) enforce(p int) {
	g.current, g.evaluations = p, 0
	if g.gates != gatesMade {
		return
	}
	used := g.plans[p].edges
	for i, e := range g.edges {
		if !slices.Contains(used, i) {
			e.gate.Force(true)
			if e.holder != nil {
				e.holder.release()
			}
		}
	}
	for _, i := range used {
		g.edges[i].gate.Force(false)
	}
}

// failed notes what went wrong with an input, once.
func (g *gating) failed(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.troubles, what) {
		g.troubles = append(g.troubles, what)
	}
}

// run evaluates the plans until the query ends.
func (g *gating) run() {
	tick := time.NewTicker(evaluateEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.evaluate()
		case <-g.stop:
			return
		}
	}
}

// end stops choosing, when the sources are stopped, and frees the gates.
func (g *gating) end() {
	if g == nil {
		return
	}
	g.ended.Do(func() { close(g.stop) })
	g.done.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates != gatesMade {
		return
	}
	if !g.began.IsZero() {
		g.observe()
	}
	_ = g.set.Close() // nobody looks at it any more
	g.gates = gatesFreed
}
