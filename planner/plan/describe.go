package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"endoscope/planner/types"
)

func (n *Acquire) Schema() types.Schema   { return n.Out }
func (n *Filter) Schema() types.Schema    { return n.Input.Schema() }
func (n *Project) Schema() types.Schema   { return n.Out }
func (n *Window) Schema() types.Schema    { return n.Out }
func (n *Aggregate) Schema() types.Schema { return n.Out }
func (n *Distinct) Schema() types.Schema  { return n.Input.Schema() }
func (n *Sort) Schema() types.Schema      { return n.Input.Schema() }
func (n *Limit) Schema() types.Schema     { return n.Input.Schema() }
func (n *Union) Schema() types.Schema     { return n.Out }
func (n *Insert) Schema() types.Schema    { return InsertSchema }
func (n *Values) Schema() types.Schema    { return n.Out }

// InsertSchema is the result of an INSERT: one row with the number of rows written.
var InsertSchema = types.Schema{Fields: []types.Field{{Name: "rows", Type: tI}}, Time: -1}

func (n *Acquire) Inputs() []Node   { return nil }
func (n *Filter) Inputs() []Node    { return []Node{n.Input} }
func (n *Project) Inputs() []Node   { return []Node{n.Input} }
func (n *Window) Inputs() []Node    { return []Node{n.Input} }
func (n *Aggregate) Inputs() []Node { return []Node{n.Input} }
func (n *Distinct) Inputs() []Node  { return []Node{n.Input} }
func (n *Sort) Inputs() []Node      { return []Node{n.Input} }
func (n *Limit) Inputs() []Node     { return []Node{n.Input} }
func (n *Union) Inputs() []Node     { return n.Ins }
func (n *Insert) Inputs() []Node    { return []Node{n.Input} }
func (n *Values) Inputs() []Node    { return nil }

func (n *Acquire) WithInputs([]Node) Node      { return n }
func (n *Filter) WithInputs(in []Node) Node    { c := *n; c.Input = in[0]; return &c }
func (n *Project) WithInputs(in []Node) Node   { c := *n; c.Input = in[0]; return &c }
func (n *Window) WithInputs(in []Node) Node    { c := *n; c.Input = in[0]; return &c }
func (n *Aggregate) WithInputs(in []Node) Node { c := *n; c.Input = in[0]; return &c }
func (n *Distinct) WithInputs(in []Node) Node  { c := *n; c.Input = in[0]; return &c }
func (n *Sort) WithInputs(in []Node) Node      { c := *n; c.Input = in[0]; return &c }
func (n *Limit) WithInputs(in []Node) Node     { c := *n; c.Input = in[0]; return &c }
func (n *Union) WithInputs(in []Node) Node     { c := *n; c.Ins = in; return &c }
func (n *Insert) WithInputs(in []Node) Node    { c := *n; c.Input = in[0]; return &c }
func (n *Values) WithInputs([]Node) Node       { return n }

func (*Acquire) node()   {}
func (*Filter) node()    {}
func (*Project) node()   {}
func (*Window) node()    {}
func (*Aggregate) node() {}
func (*Distinct) node()  {}
func (*Sort) node()      {}
func (*Limit) node()     {}
func (*Union) node()     {}
func (*Insert) node()    {}
func (*Values) node()    {}

// Describe of a leaf names the stream, the acquired columns, the target, the selected
// functions, the pushed predicate, and the first stage of the aggregate above.
func (n *Acquire) Describe() string {
	var b strings.Builder
	b.WriteString("acquire " + n.Stream)
	if len(n.Args) > 0 {
		ss := make([]string, len(n.Args))
		for i := range n.Args {
			ss[i] = n.Args[i].String()
		}
		b.WriteString("(" + strings.Join(ss, ", ") + ")")
	}
	if n.Every > 0 {
		b.WriteString(" every " + FormatDuration(int64(n.Every)))
	}
	if n.OnDemand {
		b.WriteString(" on demand")
	}
	b.WriteString(" [" + strings.Join(fieldNames(n.Out), ", ") + "]")
	if t := n.Target.String(); t != "" {
		b.WriteString(" target " + t)
		if n.Target.Follow {
			b.WriteString(" and children")
		}
	}
	if n.Select != nil {
		b.WriteString(" functions " + n.Select.String())
	}
	if c := n.Context; c != nil {
		b.WriteString(" context " + c.Name)
	}
	if n.Filter != nil {
		b.WriteString(" where " + n.Filter.String())
	}
	if n.Budget != nil {
		b.WriteString(" within " + FormatValue(types.Float(100*n.Budget.Share)) + "%")
	}
	if n.Partial != nil {
		b.WriteString(" partial: " + n.Partial.String())
	}
	return b.String()
}

func fieldNames(s types.Schema) []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}

func (n *Filter) Describe() string { return "filter " + n.Cond.String() }

func (n *Project) Describe() string {
	ss := make([]string, len(n.Exprs))
	for i, e := range n.Exprs {
		ss[i] = e.String()
		if name := n.Out.Fields[i].Name; name != ss[i] {
			ss[i] += " as " + name
		}
	}
	return "project " + strings.Join(ss, ", ")
}

func (n *Window) Describe() string {
	size := formatStd
	if n.Out.Fields[n.Out.Time].Type == tI {
		size = func(d time.Duration) string { return strconv.FormatInt(int64(d), 10) } // lines
	}
	w, s := n.Spec, "window "
	switch w.Kind {
	case Hop:
		s += "hop " + size(w.Slide) + " " + size(w.Size)
	case Session:
		s += "session " + size(w.Gap)
		if len(w.PartitionBy) > 0 {
			s += " by " + joinExprs(w.PartitionBy)
		}
	default:
		s += "tumble " + size(w.Size)
	}
	if n.Hold {
		s += " hold"
	}
	return s
}

func formatStd(d time.Duration) string { return FormatDuration(int64(d)) }

func (n *Aggregate) Describe() string {
	s := "aggregate "
	if n.States {
		s += "states of "
	}
	s += joinAggs(n.Aggs)
	if len(n.Derived) > 0 {
		s += ", " + joinExprs(n.Derived)
	}
	if len(n.Keys) > 0 {
		s += " by " + joinExprs(n.Keys)
	}
	if n.Confidence > 0 {
		s += " estimated"
		if n.Precision > 0 {
			s += fmt.Sprintf(" until within %.4g%% at confidence %.4g%%", 100*n.Precision, 100*n.Confidence)
		}
	}
	if n.Windowed {
		return s + " per window"
	}
	return s + " " + n.Emit.String()
}

// String returns the clause: emit final, emit changes, emit every 1s.
func (e Emit) String() string {
	switch e.Mode {
	case Changes:
		return "emit changes"
	case Every:
		return "emit every " + formatStd(e.Every)
	}
	return "emit final"
}

func (n *Distinct) Describe() string {
	if n.PerFlush {
		return "distinct per result"
	}
	return "distinct"
}

func (n *Sort) Describe() string {
	ss := make([]string, len(n.Keys))
	for i, k := range n.Keys {
		ss[i] = k.X.String()
		if k.Desc {
			ss[i] += " desc"
		}
	}
	s := "sort " + strings.Join(ss, ", ")
	if n.Limit > 0 {
		s += " top " + strconv.FormatInt(n.Limit, 10)
	}
	if n.Emit.Mode == Every {
		s += " " + n.Emit.String()
	}
	return s
}

func (n *Limit) Describe() string {
	s := "limit " + strconv.FormatInt(n.N, 10)
	if n.Skip > 0 {
		s += " after " + strconv.FormatInt(n.Skip, 10)
	}
	if n.PerFlush {
		s += " per result"
	}
	return s
}

// Reach returns the number of rows of the input that a limit reads at most.
func (n *Limit) Reach() int64 { return n.N + min(n.Skip, math.MaxInt64-n.N) }

func (n *Union) Describe() string { return "union all" }
func (n *Insert) Describe() string {
	if n.Append {
		return fmt.Sprintf("append to file('%s')", n.Path)
	}
	return fmt.Sprintf("insert into file('%s')", n.Path)
}
func (n *Values) Describe() string {
	if len(n.Rows) == 1 {
		return "values 1 row"
	}
	return fmt.Sprintf("values %d rows", len(n.Rows))
}

// String returns the condition as a predicate: container = 'web', label('app') = 'x'.
func (c ContainerIs) String() string {
	column := c.Column
	if name, ok := strings.CutPrefix(column, LabelPrefix); ok {
		column = "label('" + name + "')"
	}
	return column + " = '" + c.Value + "'"
}

// LabelPrefix begins the column of a label.
const LabelPrefix = "label "

// String returns a target as predicates: pid = 42, exe = '/usr/bin/x'.
func (t Target) String() string {
	var ss []string
	for _, p := range t.PIDs {
		ss = append(ss, "pid = "+strconv.Itoa(p))
	}
	for _, p := range t.Processes {
		ss = append(ss, "process = '"+p+"'")
	}
	for _, e := range t.Exes {
		ss = append(ss, "exe = '"+e+"'")
	}
	for _, c := range t.Containers {
		ss = append(ss, c.String())
	}
	for _, f := range t.Files {
		ss = append(ss, "module = '"+f+"'")
	}
	if t.Matching != nil {
		ss = append(ss, t.Matching.String())
	}
	return strings.Join(ss, " or ")
}
