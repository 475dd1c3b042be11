package gating

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"endoscope/operators"
	"endoscope/planner"
	"endoscope/planner/cost"
	"endoscope/planner/order"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/gate"
	"endoscope/server/flow"
)

// Gating decides which inputs of a query's window joins are acquired all the
// time, and which only behind a gate that another input opens (EndoScope,
// section 5.3).
//
// All gates that any of its plans needs exist from the start. A plan determines
// which of them are held open, so a change of plan only writes words in memory,
// and no event is lost or seen twice. Once a second it evaluates the
// measurements and chooses again.
type Gating struct {
	ways   []plan.Gating // two for each join, as the planner lists them
	Links  []*link       // the ways that are possible
	Inputs []*GatedInput
	Plans  []joinPlan // the first acquires everything
	inForce
	Mode      string       // SET join_plan
	mayAttach func() bool  // the query's phase permits attaching and detaching probes
	feeds     []*flow.Feed // of the query

	gates gatesPhase
	set   *gate.Set // of created gates

	stop  chan struct{}
	ended sync.Once
	done  sync.WaitGroup
}

// gatesPhase tells whether the gates exist. They are created once, by the
// query's owner before it runs, and freed under Gating.mu when it has ended. A
// gating that needs no gates never creates any.
type gatesPhase uint8

const (
	gatesAbsent gatesPhase = iota
	gatesMade
	gatesFreed
)

// inForce is the state that changes while the query runs.
type inForce struct {
	Mu           sync.Mutex
	Chooser      cost.Chooser
	Current      int
	Switches     []planSwitch
	attachErrors []string // errors of attaching again
	began        time.Time
	at           time.Time // of the last evaluation
	// evaluations is their number since the plan was put into force.
	evaluations int
	ticks       ticks
	spent       int64 // processor time of this process until the last evaluation, ns
}

// link is a way for one input to open another's gate.
type link struct {
	plan.Gating
	way                int // index of ways
	opener, GatedInput int // indexes of inputs
	gate               *gate.Gate
	holder             *flow.Holder // holds the gated input's rows
	Needed             cost.Mean
	openings           cost.Mean     // per second
	was                int64         // ns for which the gate was open, at the last evaluation
	wasTimes           uint64        // number of openings, at the last evaluation
	open               time.Duration // how long the input was acquired
	mu                 sync.Mutex    // guards the following
	rows, latency      int64         // rows of the opener that opened the gate, and the sum of their delays, ns
	worst              int64         // largest delay, ns
	detaching
}

// GatedInput is an acquisition that opens gates or is gated.
type GatedInput struct {
	feed   *flow.Feed
	name   string
	source probes.Source // nil: an opener whose source does not handle gates
	Gated  bool          // the source itself passes or opens gates
	Rate   cost.Mean
	// awaited and rows are shares of the acquired calls: those whose return was
	// awaited, and those that yielded rows.
	awaited, rows cost.Mean

	// As of the last evaluation.
	was     probes.Activity
	wasRows uint64
	changes int
}

// joinPlan is one combination of ways to acquire the inputs.
type joinPlan struct {
	Name     string
	links    []int
	Strategy cost.Strategy
}

// planSwitch is a change of plan.
type planSwitch struct {
	After          time.Duration
	From, To       int
	Before, Expect float64 // costs, ns per second
}

// maxPlans bounds the number of plans. For further joins both inputs are
// acquired all the time.
const maxPlans = 32

// evaluateEvery is the interval at which plans are compared.
const evaluateEvery = cost.Every

// New finds the ways to gate the joins of a query's plan; text is the
// statement. It returns nil if there is none. mayAttach reports whether the
// query's phase permits attaching and detaching probes.
func New(feeds []*flow.Feed, root plan.Node, text string, mayAttach func() bool) (*Gating, error) {
	if !slices.ContainsFunc(feeds, func(f *flow.Feed) bool { return f.OwnInfo.Gateable }) {
		return nil, nil
	}
	settings := feeds[0].Spec.Settings
	g := &Gating{Mode: settings.JoinPlan, feeds: feeds, mayAttach: mayAttach, stop: make(chan struct{})}
	g.ways = order.Gatings(root, g.ability, settings.JoinGated)
	if len(g.ways) == 0 {
		return nil, nil
	}
	for i := range g.ways {
		g.addLink(i, settings.JoinGated)
	}
	g.enumerate()
	if err := g.force(); err != nil {
		return nil, planner.Placed(err, text)
	}
	return g, nil
}

func (g *Gating) feedOf(a *plan.Acquire) *flow.Feed {
	for _, f := range g.feeds {
		if f.Spec == a {
			return f
		}
	}
	return nil
}

// ability returns how the source of an acquisition supports gates.
func (g *Gating) ability(a *plan.Acquire) plan.Ability {
	if f := g.feedOf(a); f != nil && f.OwnInfo.Gateable {
		return f.OwnInfo.Ability
	}
	return plan.Ability{Why: fmt.Sprintf("%s cannot be shut", a.Stream), Closed: fmt.Sprintf("the conditions on %s are not tested in the kernel", a.Stream)}
}

// addLink makes a link of a way that is possible, and records why another is
// not.
func (g *Gating) addLink(i int, inexact bool) {
	w := &g.ways[i]
	if w.Refused != "" {
		return
	}
	if !w.Exact && !inexact {
		w.Refused = w.Inexact
		return
	}
	for _, e := range g.Links {
		if e.Gated == w.Gated {
			w.Refused = fmt.Sprintf("the gate of %s is opened by %s", w.GatedName, e.OpenerName)
			return
		}
	}
	if w.Kernel && g.opens(w.Opener) == probes.MaxOpened {
		w.Refused = fmt.Sprintf("%s opens %d other gates", w.OpenerName, probes.MaxOpened)
		return
	}
	g.Links = append(g.Links, &link{Gating: *w, way: i, opener: g.input(w.Opener, w.OpenerName), GatedInput: g.input(w.Gated, w.GatedName)})
}

// opens returns the number of gates that an acquisition opens in the kernel.
func (g *Gating) opens(a *plan.Acquire) (n int) {
	for _, e := range g.Links {
		if e.Kernel && e.Opener == a {
			n++
		}
	}
	return n
}

// input returns the index of an acquisition among the inputs.
func (g *Gating) input(a *plan.Acquire, name string) int {
	f := g.feedOf(a)
	i := slices.IndexFunc(g.Inputs, func(in *GatedInput) bool { return in.feed == f })
	if i < 0 {
		i = len(g.Inputs)
		in := &GatedInput{feed: f, name: name}
		if f.OwnInfo.Gateable {
			in.source = f.Own
		}
		g.Inputs = append(g.Inputs, in)
	}
	return i
}

// enumerate lists the plans: for each join, both inputs all the time or one of
// its links.
func (g *Gating) enumerate() {
	g.Plans = []joinPlan{{}}
	for i := 0; i < len(g.ways); i += 2 { // two per join
		var with []joinPlan
		for _, side := range []struct {
			name string
			link int
		}{
			{"all", -1},
			{"left", slices.IndexFunc(g.Links, func(e *link) bool { return e.way == i })},
			{"right", slices.IndexFunc(g.Links, func(e *link) bool { return e.way == i+1 })},
		} {
			if side.name != "all" && (side.link < 0 || len(g.Plans)*2 > maxPlans) {
				continue
			}
			for _, p := range g.Plans {
				p.links = slices.Clone(p.links)
				if p.Name != "" {
					p.Name += ", "
				}
				p.Name += side.name
				if side.link >= 0 {
					p.links = append(p.links, side.link)
				}
				with = append(with, p)
			}
		}
		g.Plans = with
	}
	for i := range g.Plans {
		p := &g.Plans[i]
		p.Strategy = cost.AllOn(len(g.Inputs))
		for _, e := range p.links {
			p.Strategy[g.Links[e].GatedInput] = g.Links[e].opener
		}
	}
}

// force applies SET join_plan: left and right select that side first in every
// join.
func (g *Gating) force() error {
	if g.Mode != "left" && g.Mode != "right" {
		return nil
	}
	var names []string
	for i := range g.ways {
		w := &g.ways[i]
		if w.Left != (g.Mode == "left") {
			continue
		}
		names = append(names, g.Mode)
		if w.Refused == "" {
			continue
		}
		e := plan.Errorf(-1, -1, "join_plan = %s is not possible: %s", g.Mode, w.Refused)
		if w.Inexact != "" {
			return e.WithHint("SET join_gating = 'gated' accepts that; SET join_plan = 'auto' takes what is possible")
		}
		return e.WithHint("SET join_plan = 'auto' takes what is possible")
	}
	name := strings.Join(names, ", ")
	g.Current = slices.IndexFunc(g.Plans, func(p joinPlan) bool { return p.Name == name })
	if g.Current < 0 {
		return plan.Errorf(-1, -1, "join_plan = %s is not possible for so many joins", g.Mode)
	}
	return nil
}

// Prepare creates the gates and passes them to the sources, before these load
// anything. Everything is acquired until Start. A second call does nothing.
func (g *Gating) Prepare() error {
	if g == nil || len(g.Links) == 0 || g.Mode == "all" || g.gates != gatesAbsent {
		return nil
	}
	var err error
	if g.set, err = gate.NewSet(len(g.Links), g.inKernel()); err != nil {
		return err
	}
	g.gates = gatesMade
	gates := make([]probes.Gates, len(g.Inputs))
	for i, e := range g.Links {
		e.gate = g.set.Gate(i)
		e.gate.Force(true)
		own := &gates[e.GatedInput]
		own.Set = g.set
		if e.Way == plan.Holding {
			f := g.Inputs[e.GatedInput].feed
			e.holder = flow.NewHolder(f, e.gate, int64(e.Before), f.Spec.Out.Time, f.Queue.Limit/2)
			f.Holder = e.holder
		} else {
			own.Own, own.Way = e.gate, e.Way
			g.detachable(e)
			own.Detaches = e.Source != nil
		}
		if e.Kernel {
			by := &gates[e.opener]
			by.Set = g.set
			by.Opens = append(by.Opens, probes.Opened{Gate: e.gate, Within: e.Within})
		}
	}
	for i, in := range g.Inputs {
		if gates[i].Set != nil {
			in.feed.Unshare() // a shared source would be gated for other queries, too
			in.feed.Options.Gates = gates[i]
			in.Gated = true
		}
	}
	return nil
}

// inKernel reports whether programs in the kernel test or open a gate.
func (g *Gating) inKernel() bool {
	return slices.ContainsFunc(g.Links, func(e *link) bool { return e.Kernel || e.Way == plan.AtEntry })
}

// Tap returns the operator tap that opens the gates opened by the engine.
func (g *Gating) Tap(j *plan.Join, port int) *operators.Tap {
	if g == nil {
		return nil
	}
	for _, e := range g.Links {
		if e.gate == nil || e.Join != j || e.Kernel || e.Left != (port == 0) {
			continue
		}
		if e.holder != nil {
			return &operators.Tap{
				Rows:      func(t int64) { e.holder.Arrived(t, int64(e.Within)) },
				Watermark: e.holder.Passed,
			}
		}
		return &operators.Tap{Rows: e.Arrived, Watermark: func(int64) {}}
	}
	return nil
}

// Arrived opens the gate for a row with event time t.
func (e *link) Arrived(t int64) {
	now := clock.Now()
	e.gate.Open(now, now+int64(e.Within))
	late := max(0, now-t)
	e.mu.Lock()
	e.rows++
	e.latency += late
	e.worst = max(e.worst, late)
	e.mu.Unlock()
}

// Start puts the first plan into force, once every source is armed.
func (g *Gating) Start() {
	if g == nil {
		return
	}
	g.Mu.Lock()
	g.began, g.at, g.spent = time.Now(), time.Now(), clock.ProcessTime()
	g.Enforce(g.Current)
	g.Mu.Unlock()
	if g.gates == gatesMade {
		g.done.Go(g.run)
		for _, e := range g.Links {
			if e.Source != nil {
				g.done.Go(func() { g.runAttachment(e) })
			}
		}
	}
}

// Enforce holds open the gates that a plan does not use, and then releases
// those that it uses. The caller holds g.mu.
func (g *Gating) Enforce(p int) {
	g.Current, g.evaluations = p, 0
	if g.gates != gatesMade {
		return
	}
	used := g.Plans[p].links
	for i, e := range g.Links {
		if !slices.Contains(used, i) {
			e.gate.Force(true)
			if e.holder != nil {
				e.holder.Release()
			}
		}
	}
	for _, i := range used {
		g.Links[i].gate.Force(false)
	}
}

// failed records an error of an input, once.
func (g *Gating) failed(what string) {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if !slices.Contains(g.attachErrors, what) {
		g.attachErrors = append(g.attachErrors, what)
	}
}

// run evaluates the plans until the query ends.
func (g *Gating) run() {
	tick := time.NewTicker(evaluateEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.Evaluate()
		case <-g.stop:
			return
		}
	}
}

// End stops evaluating, after the sources were stopped, and frees the gates.
func (g *Gating) End() {
	if g == nil {
		return
	}
	g.ended.Do(func() { close(g.stop) })
	g.done.Wait()
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if g.gates != gatesMade {
		return
	}
	if !g.began.IsZero() {
		g.Observe()
	}
	_ = g.set.Close() // no program uses them any more
	g.gates = gatesFreed
}
