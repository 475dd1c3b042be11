package placement

import (
	"context"
	"slices"
	"time"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/planner"
	"endoscope/planner/cost"
	"endoscope/planner/distribute"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/server/answer"
	"endoscope/server/flow"
	"endoscope/server/wire"
)

// Placement is the last operator of a query that is divided between this site
// and its client (distribute.Division). Of each batch it executes this site's
// current share, and sends the result to the client for the rest.
//
// A move takes effect between two batches: the states that the first stage
// holds are sent before the rows that follow. So each row is in the result
// once, and in order, regardless of moves.
type Placement struct {
	*distribute.Division
	encoded []byte // the fragment
	Out     *flow.Outlet
	first   division
	armed   time.Time    // when the query was armed
	began   int64        // armed by the clock of events
	Now     func() int64 // current time by that clock; at the query's end, the time of the end

	lower *graph.Graph          // Lower at this site
	stage *agg.FirstStage       // nil: there is none
	marks bool                  // Upper depends on watermarks
	steer func(rows uint64) int // decides instead of the costs; nil: the costs decide

	// The following is used by the runner, and by EXPLAIN ANALYZE and the
	// footer.
	at          division
	picked      []batch.Column // scratch
	trying      bool           // a trial: results are not sent
	rows        uint64         // number of rows of Base
	pane        int64          // the last pane that had begun before the watermark
	judged      time.Time
	meters      meters
	mover       *cost.Mover
	moveMonitor moveMonitor
	path        wire.Path
	moves       []move
}

// division tells where this site's share ends.
type division int

const (
	atBase  division = iota // with Base: its rows are sent
	atLower                 // with Lower: its rows are sent
	atStage                 // with the first stage: its states are sent
)

func (d division) String() string {
	return [...]string{"all at the client", "rows of filters and projections sent", "as much as possible at the server"}[d]
}

// move is a move of operators.
type move struct {
	rows     uint64 // number of rows of Base before it
	after    time.Duration
	from, to division
}

const (
	// judging is the interval at which the costs are compared.
	judging = time.Second
	// statesHeld and statesBytes bound the groups and the other bytes whose
	// states are held here before they are sent.
	statesHeld, statesBytes = 1 << 16, 16 << 20
)

// Values of SET placement.
const (
	placeAuto, placeServer, placeClient = "auto", "server", "client"
)

// Query describes a query that may be divided.
type Query struct {
	Root     plan.Node
	Residual func(*plan.Acquire) plan.Expr // the part of an acquisition's filter that its source does not test
	Live     time.Duration                 // interval of previews; 0: none
	Text     string
}

// New divides a query if its client may execute a part of it; otherwise it
// returns nil.
func New(q Query, path wire.Path, how string, steer func(uint64) int) (*Placement, error) {
	if how == placeServer {
		return nil, nil
	}
	d := distribute.Divide(q.Root, q.Residual)
	if d == nil || how == placeAuto && !d.Fragment.Moves() {
		return nil, nil
	}
	encoded, err := planpb.Encode(d.Fragment)
	if err != nil {
		return nil, nil // a query that uses a model is not divided, since the model stays here
	}
	p := &Placement{Division: d, encoded: encoded, path: path, steer: steer, marks: plan.Windowed(d.Fragment.Upper)}
	if partial := d.Fragment.Partial(); partial != nil {
		if p.stage, err = agg.NewFirstStage(partial, d.Fragment.Lowered()); err != nil {
			return nil, planner.Placed(err, q.Text)
		}
	}
	if p.lower, err = graph.Build(d.Fragment.Lower, runStage{p}, &operators.Options{}); err != nil {
		return nil, planner.Placed(err, q.Text)
	}
	p.at = slices.Max(p.divisions())
	if how == placeClient {
		p.at, p.steer = atBase, func(uint64) int { return int(atBase) }
	}
	p.first = p.at
	p.mover = cost.NewMover(slices.Index(p.divisions(), p.at))
	p.meters = newMeters(d.Fragment, emissions(q.Root, q.Live))
	return p, nil
}

// Begin records when the query was armed. It is called before anything is
// pushed.
func (p *Placement) Begin(at time.Time, clock int64) {
	if p != nil {
		p.armed, p.began = at, clock
	}
}

// divisions lists the possible divisions of the query.
func (p *Placement) divisions() []division {
	ds := []division{atBase}
	if plan.Depth(p.Fragment.Lower) > 0 {
		ds = append(ds, atLower)
	}
	if p.stage != nil {
		ds = append(ds, atStage)
	}
	return ds
}

func (p *Placement) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	now := time.Now()
	if err := p.decide(ctx, now); err != nil {
		return operators.More, err
	}
	p.rows += uint64(b.Len())
	if len(p.Columns) < len(b.Cols) {
		cols := p.picked[:0]
		for _, c := range p.Columns {
			cols = append(cols, b.Cols[c])
		}
		p.picked = cols
		b = b.Derive(nil, cols)
		defer b.Release()
	}
	sample := p.meters.due(now) && p.steer == nil
	if p.at == atBase {
		if sample {
			if err := p.try(ctx, b); err != nil {
				return operators.More, err
			}
		}
		return operators.More, p.send(ctx, wire.PortRows, b)
	}
	if sample {
		return operators.More, p.meters.measure(b, func() error { return p.execute(ctx, b) })
	}
	return operators.More, p.execute(ctx, b)
}

// execute executes this site's share of a batch.
func (p *Placement) execute(ctx context.Context, b *batch.Batch) error {
	leaf := p.lower.Leaves[0]
	_, err := leaf.Op.Push(ctx, leaf.Port, b)
	return err
}

// try executes a possible share of this site, to measure its cost.
func (p *Placement) try(ctx context.Context, b *batch.Batch) error {
	p.trying = true
	err := p.meters.measure(b, func() error { return p.execute(ctx, b) })
	p.trying = false
	if p.stage != nil {
		p.meters.groups.Observe(float64(p.stage.Groups()), sampling)
		p.stage.Forget()
	}
	p.meters.rest()
	return err
}

// runStage receives the rows of Lower at this site.
type runStage struct{ *Placement }

func (p runStage) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	folds := p.stage != nil && (p.at == atStage || p.trying) && p.stage.Accepts(b)
	if !folds && !p.trying {
		p.meters.runStage(b, nil)
		return operators.More, p.send(ctx, wire.PortLowered, b)
	}
	if !folds {
		p.meters.runStage(b, nil)
		return operators.More, nil
	}
	err := p.meters.runStage(b, func() error { return p.stage.Push(ctx, b) })
	if err == nil && !p.trying && (p.stage.Groups() > statesHeld || p.stage.Held() > statesBytes) {
		err = p.flush(ctx)
	}
	return operators.More, err
}

func (p runStage) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (p runStage) Close(context.Context, int) error { return nil }

// flush sends the states that the first stage holds.
func (p *Placement) flush(ctx context.Context) error {
	if p.stage == nil {
		return nil
	}
	if n := p.stage.Groups(); n > 0 {
		p.meters.groups.Observe(float64(n), sampling)
	}
	return p.stage.Emit(func(b *batch.Batch) error {
		defer b.Release()
		return p.send(ctx, wire.PortStates, b)
	})
}

func (p *Placement) send(ctx context.Context, port wire.Port, b *batch.Batch) error {
	return p.Out.SendRows(ctx, port, b)
}

// Signal passes on what the client's share needs to know, after the states of
// what came before it.
func (p *Placement) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	if err := p.decide(ctx, time.Now()); err != nil {
		return operators.More, err
	}
	m := wire.Cue{Time: s.Time, Preview: s.Preview}
	switch s.Kind {
	case operators.Watermark:
		if !p.marks || !p.passes(s.Time) {
			return operators.More, nil
		}
	case operators.Tick:
		m.Kind, m.Time = wire.CueTick, s.Time-p.began
	case operators.Flush:
		m.Kind, m.Time = wire.CueFlush, 0
	default:
		return p.Out.Signal(ctx, port, s)
	}
	if err := p.flush(ctx); err != nil {
		return operators.More, err
	}
	return operators.More, p.Out.SendCue(ctx, m)
}

// passes reports whether a watermark may close a window: if windows consist of
// panes, it does if it passes the end of one.
func (p *Placement) passes(t int64) bool {
	partial := p.Fragment.Partial()
	if partial == nil || partial.Pane == 0 {
		return true
	}
	pane := t / int64(partial.Pane)
	if pane <= p.pane {
		return false
	}
	p.pane = pane
	return true
}

func (p *Placement) Close(ctx context.Context, port int) error {
	if err := p.flush(ctx); err != nil {
		return err
	}
	if err := p.Out.SendCue(ctx, wire.Cue{Kind: wire.CueEnd, Time: p.Now() - p.began}); err != nil {
		return err
	}
	return p.Out.Close(ctx, port)
}

// decide moves operators if it is time to.
func (p *Placement) decide(ctx context.Context, now time.Time) error {
	to := p.at
	switch {
	case p.steer != nil:
		to = division(p.steer(p.rows))
	case p.Out.NearlyFull(): // rows would be dropped soon
		to = slices.Max(p.divisions())
		p.mover.Move(slices.Index(p.divisions(), to))
	case now.Sub(p.judged) >= judging:
		if !p.judged.IsZero() {
			to = p.chooseDivision(now.Sub(p.judged))
		}
		p.judged = now
	}
	if to == p.at || !slices.Contains(p.divisions(), to) {
		return nil
	}
	if err := p.flush(ctx); err != nil {
		return err
	}
	p.moves = append(p.moves, move{p.rows, now.Sub(p.armed), p.at, to})
	p.at = to
	return nil
}

// chooseDivision compares the costs after an interval d. The capacity of the network is
// known if it was full lately; otherwise, sending more than before is a trial.
// A query that waits for its client does not stay with a division that is
// slower (moveMonitor).
func (p *Placement) chooseDivision(d time.Duration) division {
	p.meters.updateRates(p, d)
	p.moveMonitor.observe(p.rows-p.Out.UnreadRows(), d)
	ds, all := p.divisions(), p.costs()
	waits := !p.Out.Live.Load()
	if back, slow := p.moveMonitor.madeSlower(p.at); slow && waits {
		p.moveMonitor.refuse(p.at, perRow(all[slices.Index(ds, back)]))
		p.mover.Move(slices.Index(ds, back))
		return back
	}
	var costs []float64
	for _, c := range all {
		costs = append(costs, c.Cost())
	}
	if waits {
		p.moveMonitor.leaveOut(ds, p.at, costs, perRow(all[slices.Index(ds, p.at)]))
	}
	to := ds[p.mover.Next(costs)]
	if to < p.at {
		p.moveMonitor.watch(p.at)
		if !p.link().Limited {
			p.mover.Try()
		}
	}
	return to
}

// costs returns the currently known costs of the divisions.
func (p *Placement) costs() (out []cost.Placement) {
	for _, d := range p.divisions() {
		out = append(out, p.meters.cost(p, d))
	}
	return out
}

// ForClient returns the fragment that the client executes.
func (p *Placement) ForClient(now int64) *wire.Fragment {
	f := &wire.Fragment{Plan: p.encoded, Running: now - p.began, Port: [...]wire.Port{atBase: wire.PortRows, atLower: wire.PortLowered, atStage: wire.PortStates}[p.first]}
	f.Sections[wire.PortRows] = answer.ColumnsOf(plan.Source(p.Fragment.Lower).Out)
	f.Sections[wire.PortLowered] = answer.ColumnsOf(p.Fragment.Lowered())
	if partial := p.Fragment.Partial(); partial != nil {
		f.Sections[wire.PortStates] = answer.ColumnsOf(partial.Out)
	}
	return f
}
