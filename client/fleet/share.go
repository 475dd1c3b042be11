package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// upper is the part of a query over several hosts that is executed here: the upper
// part of its plan, as one host sent it, over the rows or states of all hosts.
type upper struct {
	*plan.Fragment
	cols    []wire.Column // of the result
	running int64         // for how long the query had run at the host, ns
	reduces bool          // states are merged into states, and the upper part is not executed
}

// fragments are plans that were decoded, by what hosts sent: most hosts send the same.
type fragments map[string]*plan.Fragment

func (f fragments) decode(encoded []byte) (*plan.Fragment, error) {
	if known := f[string(encoded)]; known != nil {
		return known, nil
	}
	out, err := planpb.Decode(encoded)
	if err == nil {
		f[string(encoded)] = out
	}
	return out, err
}

// upperOf decodes the upper part that a host sent; nil if it sent none.
func upperOf(p *part, known fragments) (*upper, error) {
	s := p.res.Info().Share
	if s == nil {
		return nil, nil
	}
	f, err := known.decode(s.Plan)
	if err != nil {
		return nil, err
	}
	u := &upper{Fragment: f, cols: s.Columns, running: s.Running}
	if f.Exchange == nil || !u.fits(p.res.Columns()) {
		return nil, errors.New("the plan that the host sent does not fit its rows")
	}
	return u, nil
}

// states returns the first stage whose states hosts send; nil if they send rows.
func (u *upper) states() *plan.Partial {
	if u.Exchange.Kind != plan.MergeStates {
		return nil
	}
	return u.Partial()
}

// plain reports whether the rows of hosts are the result.
func (u *upper) plain() bool {
	_, leaf := u.Upper.(*plan.Acquire)
	return leaf
}

// fits reports whether the columns of a host's rows are those that the plan reads.
func (u *upper) fits(cols []wire.Column) bool {
	x, in := u.Exchange, plan.Source(u.Upper).Out
	if x.Kind == plan.MergeStates {
		p := u.states()
		if p == nil {
			return false
		}
		in = p.Out
	}
	is := func(i int, kinds ...types.Type) bool {
		return i >= 0 && i < len(cols) && slices.Contains(kinds, cols[i].Type)
	}
	times := []types.Type{types.Timestamp, types.Bigint}
	ok := slices.Equal(u.Upper.Schema().Types(), typesOf(u.cols)) && len(x.Pick) == len(in.Fields) &&
		(x.Kind != plan.MergeOrdered || is(x.Time, types.Timestamp))
	plain := u.plain()
	ok = ok && (!plain || len(cols) == len(x.Pick))
	for i, c := range x.Pick {
		ok = ok && is(c, in.Fields[i].Type) && (!plain || c == i)
	}
	switch x.Again {
	case plan.PerSession:
		s := x.Spans
		ok = ok && x.Gap > 0 && is(s.First, times...) && is(s.Last, times...) && is(s.Count, types.Bigint) &&
			s.Partition >= 0 && s.Partition <= len(cols) && s.Partitions >= 0 && s.Partitions <= len(cols)-s.Partition
		fallthrough
	case plan.PerWindow:
		ok = ok && is(x.Start, times...) && is(x.End, times...)
	}
	return ok
}

func typesOf(cols []wire.Column) (kinds []types.Type) {
	for _, c := range cols {
		kinds = append(kinds, c.Type)
	}
	return kinds
}

// timed returns the columns, in the rows of hosts, that are times of FIRST and
// LAST: by the clock of each host.
func (u *upper) timed() (columns []int) {
	p := u.states()
	if p == nil {
		return nil
	}
	at := 1 + len(p.Keys)
	for i := range p.Aggs {
		fields, _ := plan.StateFields(&p.Aggs[i])
		for k, f := range fields {
			if f.Name == "time" {
				columns = append(columns, u.Exchange.Pick[at+k])
			}
		}
		at += len(fields)
	}
	return columns
}

// contract compares what hosts must agree on, whatever their plans are: the types
// of keys, the aggregates and their states, and how results arrive. It returns the
// reason why the rows of other cannot be merged with those of u; "" if they can.
func (u *upper) contract(other *upper) string {
	if u.Fragment == other.Fragment {
		return ""
	}
	a, b := *u.Exchange, *other.Exchange
	a.Notices, b.Notices, a.Nothing, b.Nothing = nil, nil, false, false
	if !reflect.DeepEqual(a, b) {
		return fmt.Sprintf("it sends %s where the others send %s", exchanged(&b), exchanged(&a))
	}
	p, q := u.states(), other.states()
	if p == nil {
		return ""
	}
	if !slices.Equal(p.Out.Types(), q.Out.Types()) || p.Pane != q.Pane {
		return "its groups are of other types"
	}
	for i := range p.Aggs {
		x, y := &p.Aggs[i], &q.Aggs[i]
		if x.Fn != y.Fn || x.Distinct != y.Distinct || x.Star != y.Star || !slices.EqualFunc(x.Params, y.Params, reflectEqual) {
			return fmt.Sprintf("it computes %s where the others compute %s", y, x)
		}
	}
	return ""
}

func reflectEqual(a, b types.Value) bool { return reflect.DeepEqual(a, b) }

func exchanged(x *plan.Exchange) string {
	what := map[plan.ExchangeKind]string{plan.Gather: "rows ", plan.MergeOrdered: "rows in order of time ", plan.MergeStates: "states of groups "}[x.Kind] +
		[...]string{"once", "for each window", "for pieces of sessions", "again and again", "as they change"}[x.Again]
	if x.Limit > 0 {
		what += fmt.Sprintf(", %d at most,", x.Limit)
	}
	return what
}

// agreed returns the upper part of a query from the shares of several hosts: that
// of the first host that sent one. Hosts whose shares do not match it, or cannot
// be decoded, are declined. It returns nil if no host sent one.
//
// With declines a host that fits the others in no other way is left out, too.
func agreed(parts []*part, declines bool) (*upper, error) {
	var first *part
	var of *upper
	uppers, known := map[*part]*upper{}, fragments{}
	var misfit error
	for _, p := range parts {
		if p.res == nil {
			continue
		}
		u, err := upperOf(p, known)
		if err != nil {
			_ = p.res.Close()
			p.res, p.err, misfit = nil, err, err
			continue
		}
		if uppers[p] = u; first == nil || of != nil && of.Exchange.Nothing {
			first, of = p, u
		}
	}
	if first == nil {
		return nil, misfit
	}
	for _, p := range parts {
		u := uppers[p]
		switch {
		case p.res == nil || p == first:
			continue
		case u == nil && of == nil:
			if slices.Equal(first.res.Columns(), p.res.Columns()) {
				continue
			}
			misfit = otherColumns(first, p, first.res.Columns(), p.res.Columns())
		case u != nil && u.Exchange.Nothing && (of == nil || !slices.Equal(u.cols, of.cols) || of.contract(u) != ""):
			p.err, p.res = p.res.Close(), nil // it has no rows
			continue
		case u == nil || of == nil:
			misfit = fmt.Errorf("%s and %s are of different versions", first.name, p.name)
		case !slices.Equal(u.cols, of.cols):
			misfit = otherColumns(first, p, of.cols, u.cols)
		default:
			misfit = nil
			if why := of.contract(u); why != "" {
				_ = p.res.Close()
				p.res, p.err = nil, fmt.Errorf("the query means something else there: %s", why)
				continue
			}
		}
		switch {
		case misfit != nil && !declines:
			return nil, misfit
		case misfit != nil:
			_ = p.res.Close()
			p.res, p.err = nil, misfit
			continue
		}
		if note := p.notices(u.Exchange.Notices, of.Exchange.Notices); note != nil {
			of.Exchange.Notices = append(of.Exchange.Notices, note...)
		}
	}
	return of, nil
}

// notices returns the notices of one host that the first host did not send.
func (p *part) notices(lines, known []string) (more []string) {
	for _, n := range lines {
		if text := p.name + ": " + n; !slices.Contains(known, n) {
			more = append(more, text)
		}
	}
	return more
}

// otherColumns refuses results that are not of the same columns: the rows of one host
// would be read as those of another.
func otherColumns(a, b *part, of, others []wire.Column) error {
	return &parser.Error{Msg: fmt.Sprintf("the columns of %s are %s, those of %s are %s", a.name, columnList(of), b.name, columnList(others)),
		Hint: "name the columns that all hosts have", Pos: parser.Span{Start: -1}}
}

func columnList(cols []wire.Column) string {
	var names []string
	for _, c := range cols {
		names = append(names, c.Name+" "+c.Type.String())
	}
	return strings.Join(names, ", ")
}
