package graph

import (
	"context"
	"strconv"
	"strings"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/consistency"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Causes of a Gap for what could not be reported exactly.
const (
	withheld  = "events that nothing seen could complete"
	forgotten = "entities beyond the limit, reported as UNKNOWN"
)

// entityBytes is the approximate memory of one live entity.
const entityBytes = 1 << 10

// consistent emits the selected rows of its input, and the others that a consistency.Keeper
// needs for them. Rows that may be emitted later are copied.
type consistent struct {
	out      operators.Output
	roles    plan.EventRoles
	time     int
	types    []types.Type // of the output
	width    int          // columns of an event
	keeper   *consistency.Keeper
	pool     *batch.Pool
	b        *batch.Batch // being filled
	from     *batch.Batch // being read
	row      int
	reported consistency.Counts
	ctx      context.Context // context of the current Push
	err      error
}

func newConsistent(n *plan.Consistent, down operators.Operator, limit int64) *consistent {
	c := &consistent{out: operators.Output{To: down}, roles: n.Roles, time: n.Out.Time, types: n.Out.Types(), width: len(n.Out.Fields) - 2}
	c.keeper = consistency.NewKeeper(c.report, int(max(1, limit/entityBytes)))
	c.pool = batch.NewPool(c.types)
	return c
}

// copied is a row that outlives its batch.
type copied []types.Value

func (c *consistent) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if c.out.Status != operators.More {
		return c.out.Status, nil
	}
	c.ctx, c.from = ctx, b
	for _, row := range batch.RowsOf(b) {
		c.row = int(row)
		e, err := c.event()
		if err != nil {
			return c.out.Status, err
		}
		c.keeper.Push(e, c.selected(), c.text(c.roles.ThreadName))
		if c.err != nil || c.out.Status != operators.More {
			return c.out.Status, c.err
		}
	}
	c.from = nil
	return c.flush()
}

// event returns the current row as an event.
func (c *consistent) event() (e consistency.Event, err error) {
	var ok bool
	kind := c.text(c.roles.Event)
	if e.Kind, ok = consistency.ParseKind(strings.ToUpper(kind)); !ok {
		return e, plan.Errorf(-1, -1, "CONSISTENT does not know the event '%s'", kind).
			WithHint("CREATE, LOAD, RENAME, RECLAIM, ENTER, LEAVE, REFERENCE, MOVE, ACQUIRE, RELEASE, BEGIN_WAIT, END_WAIT, SUSPEND, RESUME")
	}
	category := c.text(c.roles.Category)
	if e.Category, ok = consistency.ParseCategory(strings.ToUpper(category)); !ok {
		return e, plan.Errorf(-1, -1, "CONSISTENT does not know the category '%s'", category).
			WithHint("TYPE, OBJECT, THREAD, INVOCATION; NULL for what happens to entities")
	}
	if e.Category == consistency.None && e.Kind < consistency.Reference && e.Kind != consistency.Ended {
		return e, plan.Errorf(-1, -1, "the event %s of %s has no category: CONSISTENT cannot know what it is about", kind, c.text(c.roles.Entity)).
			WithHint("TYPE, OBJECT, THREAD or INVOCATION in the column category")
	}
	e.Time = c.from.Cols[c.time].Int[c.row]
	e.Entity, e.Parent, e.Other = c.text(c.roles.Entity), c.text(c.roles.Parent), c.text(c.roles.Other)
	e.Thread, e.Name, e.TypeName = c.text(c.roles.ThreadID), c.text(c.roles.Name), c.text(c.roles.TypeName)
	if i := c.roles.Began; i >= 0 && e.Kind == consistency.Enter {
		e.Past = c.from.Cols[i].Value(c.row).IsNull
	}
	switch e.Kind {
	case consistency.Create, consistency.Load, consistency.Rename, consistency.Enter, consistency.Acquire, consistency.BeginWait:
		all := make(copied, c.width)
		for i := range all {
			all[i] = c.from.Cols[i].Value(c.row)
		}
		e.Value = all
	}
	return e, nil
}

// text returns a column of the current row; "" if it does not exist or is NULL.
func (c *consistent) text(col int) string {
	if col < 0 {
		return ""
	}
	v := c.from.Cols[col].Value(c.row)
	switch {
	case v.IsNull:
		return ""
	case v.Type == types.Bigint:
		return strconv.FormatInt(v.I, 10)
	}
	return v.S
}

func (c *consistent) selected() bool {
	v := c.from.Cols[c.width].Value(c.row)
	return !v.IsNull && v.I != 0
}

// report emits a report as a row.
func (c *consistent) report(r consistency.Report) {
	if c.err != nil {
		return
	}
	if c.b == nil {
		c.b = c.pool.Get()
	}
	row, _ := r.Value.(copied)
	n := c.b.N
	for i := range c.width {
		v := types.NullOf(c.types[i])
		switch {
		case row != nil:
			v = row[i]
		case r.Seq > 0: // it is the current row
			v = c.from.Cols[i].Value(c.row)
		}
		switch i {
		case c.time:
			v = types.Value{Type: c.types[i], I: r.At}
		case c.roles.Event:
			v = types.Str(r.Kind.String())
		case c.roles.Category:
			v = textual(c.types[i], r.Category.String())
		case c.roles.Entity:
			v = textual(c.types[i], r.Entity)
		case c.roles.Parent:
			v = textual(c.types[i], r.Parent)
		case c.roles.Other:
			v = textual(c.types[i], r.Other)
		case c.roles.ThreadID:
			v = textual(c.types[i], r.Thread)
		case c.roles.TypeName:
			v = textual(c.types[i], r.TypeName)
		case c.roles.Name:
			v = textual(c.types[i], r.Name)
		}
		c.b.Cols[i].Append(n, v)
	}
	c.b.Cols[c.width].Append(n, types.Bool(r.CatchUp))
	c.b.Cols[c.width+1].Append(n, types.Value{Type: c.types[c.width+1], I: r.Time})
	if c.b.N++; c.b.N == batch.MaxRows {
		_, c.err = c.flush()
	}
}

// textual returns an identity as a value of type t: NULL if it is "", or if it is unknown
// and t is numeric.
func textual(t types.Type, s string) types.Value {
	if s == "" {
		return types.NullOf(t)
	}
	if t == types.Bigint {
		i, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return types.NullOf(t)
		}
		return types.Int(i)
	}
	return types.Str(s)
}

// flush pushes the rows reported so far.
func (c *consistent) flush() (operators.Status, error) {
	b := c.b
	if b == nil {
		return c.out.Status, c.err
	}
	c.b = nil
	c.pool.Seal(b)
	defer b.Release()
	return c.out.Push(c.ctx, b)
}

// Signal forwards signals. After a Gap it is unknown which entities live.
func (c *consistent) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	c.ctx = ctx
	switch s.Kind {
	case operators.Suspend:
		c.keeper.Suspend(s.Thread)
		return c.out.Status, nil
	case operators.Resume:
		c.keeper.Resume(s.Thread)
		return c.out.Status, nil
	case operators.Watermark:
		c.keeper.Advance(s.Time)
	case operators.Gap:
		c.keeper.Lost()
		if _, err := c.flush(); err != nil {
			return c.out.Status, err
		}
	}
	if err := c.account(ctx); err != nil {
		return c.out.Status, err
	}
	return c.out.Signal(ctx, s)
}

// account signals a Gap for what could not be reported exactly.
func (c *consistent) account(ctx context.Context) error {
	now := c.keeper.Counts()
	for _, n := range []struct {
		cause    string
		was, now uint64
	}{{withheld, c.reported.Withheld, now.Withheld}, {forgotten, c.reported.Forgotten, now.Forgotten}} {
		if n.now > n.was {
			if _, err := c.out.Signal(ctx, operators.Signal{Kind: operators.Gap, Cause: n.cause, N: n.now - n.was}); err != nil {
				return err
			}
		}
	}
	c.reported = now
	return nil
}

func (c *consistent) Close(ctx context.Context, _ int) error {
	if err := c.account(ctx); err != nil {
		return err
	}
	return c.out.Close(ctx)
}
