package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// part is one host's share of a result.
type part struct {
	name string
	res  wire.Result // nil: it gave none
	err  error       // why it gave none, or no more; nil: it did
}

// gathered is the result of all hosts.
type gathered struct {
	s      *session
	parts  []*part
	host   int // where the column host is; < 0: nowhere
	limit  int64
	cols   []wire.Column
	events chan wire.Event
	ctx    context.Context
	cancel context.CancelFunc
	begin  sync.Once

	mu    sync.Mutex
	err   error
	rows  uint64
	full  bool // the limit was reached
	began time.Time
	took  time.Duration
}

// gather makes one result of those of all hosts. host is where the column with
// their names comes.
func (s *session) gather(parts []*part, host int, limit int64) *gathered {
	g := &gathered{s: s, parts: parts, host: host, limit: limit, events: make(chan wire.Event), began: time.Now()}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for _, p := range parts {
		if p.res == nil {
			continue
		}
		if cols := p.res.Columns(); cols != nil && g.cols == nil {
			g.cols = cols
			if host >= 0 {
				g.cols = slices.Insert(slices.Clone(cols), min(host, len(cols)), wire.Column{Name: "host", Type: batch.Varchar})
			}
		}
	}
	return g
}

// each executes a statement at every host, whose rows are the result.
func (s *session) each(ctx context.Context, sp *split, args []batch.Value) (wire.Result, error) {
	parts, err := s.begin(ctx, sp.each, args)
	if err != nil {
		return nil, err
	}
	return s.gather(parts, sp.host, sp.limit), nil
}

func (g *gathered) Columns() []wire.Column { return g.cols }

// Message is what all hosts say, once, or what each says.
func (g *gathered) Message() string {
	var said []string
	for _, p := range g.parts {
		if p.res != nil && p.res.Message() != "" {
			said = append(said, p.res.Message())
		}
	}
	if same := slices.Compact(slices.Clone(said)); len(same) <= 1 {
		return strings.Join(same, "")
	}
	said = said[:0]
	for _, p := range g.parts {
		if p.res != nil {
			said = append(said, p.name+": "+p.res.Message())
		}
	}
	return strings.Join(said, "; ")
}

// start has a goroutine for each host read.
func (g *gathered) start() {
	var all sync.WaitGroup
	for _, p := range g.parts {
		if p.res != nil {
			all.Go(func() { g.read(p) })
		}
	}
	go func() {
		all.Wait()
		g.mu.Lock()
		g.took = time.Since(g.began)
		g.mu.Unlock()
		close(g.events)
	}()
}

// read reads one host's result to its end.
func (g *gathered) read(p *part) {
	names := hostColumn(p.name)
	for {
		ev, err := p.res.Next(g.ctx)
		switch {
		case errors.Is(err, io.EOF), g.ctx.Err() != nil:
			return
		case err != nil:
			g.mu.Lock()
			p.err = err
			if !gone(err) && g.err == nil {
				g.err = placed(p.name, err)
				g.cancel()
			}
			g.mu.Unlock()
			return
		case ev.Preview || ev.Kind == wire.Preview:
			if ev.Batch != nil {
				ev.Batch.Release()
			}
			continue
		}
		ev.Row = 0
		if ev.Kind == wire.Notice {
			ev.Text = p.name + ": " + ev.Text
		}
		if ev.Batch != nil {
			var ok bool
			if ev.Batch, ok = g.take(ev.Batch, names); !ok {
				_ = p.res.Close() // nobody wants the rest
				return
			}
		}
		select {
		case g.events <- ev:
		case <-g.ctx.Done():
			if ev.Batch != nil {
				ev.Batch.Release()
			}
			return
		}
	}
}

// take counts rows, of which there are no more than the limit, and gives them
// their host.
func (g *gathered) take(b *batch.Batch, names *batch.Column) (*batch.Batch, bool) {
	g.mu.Lock()
	n := b.Len()
	if g.limit > 0 {
		n = min(n, int(g.limit-int64(g.rows)))
	}
	g.rows += uint64(n)
	filled := g.limit > 0 && g.rows == uint64(g.limit) && !g.full
	g.full = g.full || filled
	g.mu.Unlock()
	if filled {
		go g.Stop() // the others need not go on
	}
	if n == 0 {
		b.Release()
		return nil, false
	}
	if n < b.Len() {
		rows := make([]uint16, n)
		for i := range rows {
			rows[i] = uint16(b.Row(i))
		}
		v := b.View(rows)
		b.Release()
		b = v
	}
	if g.host < 0 {
		return b, true
	}
	with := b.Derive(nil, slices.Insert(slices.Clone(b.Cols), min(g.host, len(b.Cols)), *names))
	b.Release()
	return with, true
}

// hostColumn is a column with a host's name in every row.
func hostColumn(name string) *batch.Column {
	d := batch.NewDict()
	d.Code(name)
	return &batch.Column{Type: batch.Varchar, Code: make([]uint32, batch.MaxRows), Dict: d, Values: d.Values()}
}

func (g *gathered) Next(ctx context.Context) (wire.Event, error) {
	g.begin.Do(g.start)
	select {
	case ev, ok := <-g.events:
		if ok {
			return ev, nil
		}
	case <-ctx.Done():
		return wire.Event{}, ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return wire.Event{}, g.err
	}
	return wire.Event{}, io.EOF
}

// Stop implements wire.Result.
func (g *gathered) Stop() {
	for _, p := range g.parts {
		if p.res != nil {
			p.res.Stop()
		}
	}
}

// Close implements wire.Result.
func (g *gathered) Close() error {
	g.cancel()
	var all sync.WaitGroup
	for _, p := range g.parts {
		if p.res != nil {
			all.Go(func() { _ = p.res.Close() })
		}
	}
	all.Wait()
	g.begin.Do(func() { close(g.events) })
	for ev := range g.events {
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
	return nil
}

// Summary adds up what the hosts say, and says which did not answer, and how far
// their clocks are apart.
func (g *gathered) Summary() wire.Summary {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := wire.Summary{Rows: g.rows, Elapsed: g.took}
	var missing []string
	for _, p := range g.parts {
		if p.err != nil {
			missing = append(missing, p.name+": "+p.err.Error())
		}
		if p.res == nil {
			continue
		}
		of := p.res.Summary()
		sum.Losses = add(sum.Losses, of.Losses)
		sum.Counts = add(sum.Counts, of.Counts)
		for _, n := range of.Notes {
			sum.Notes = append(sum.Notes, p.name+": "+n)
		}
	}
	sum.Notes = append(sum.Notes, coverage(len(g.parts), missing))
	if g.s.apart >= 0 && g.host >= 0 && len(g.parts)-len(missing) > 1 {
		sum.Notes = append(sum.Notes, fmt.Sprintf("rows of hosts come as they arrive, by clocks at most %s apart", g.s.apart.Round(time.Microsecond)))
	}
	return sum
}

// coverage says how many hosts gave all they have.
func coverage(hosts int, missing []string) string {
	text := fmt.Sprintf("%d of %d hosts", hosts-len(missing), hosts)
	if len(missing) > 0 {
		text += " (" + strings.Join(missing, "; ") + ")"
	}
	return text
}

// add adds up losses by cause.
func add(all, more []wire.Loss) []wire.Loss {
	for _, l := range more {
		i := slices.IndexFunc(all, func(o wire.Loss) bool { return o.Cause == l.Cause })
		if i < 0 {
			all = append(all, l)
		} else {
			all[i].N += l.N
		}
	}
	return all
}
