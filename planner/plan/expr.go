package plan

import (
	"endoscope/planner/types"
)

// Expr is a resolved, typed expression over the columns of one node's input.
// Implicit conversions are explicit [Cast]s, so every consumer (vector
// kernels, the naive oracle, the kernel's code generator) sees exact types.
type Expr interface {
	// Type of the result.
	Type() types.Type
	// String prints the expression canonically; equal strings over the same input mean
	// equal expressions.
	String() string
	// Children returns the sub-expressions in order.
	Children() []Expr
	// WithChildren returns the same expression over other sub-expressions.
	WithChildren([]Expr) Expr
	expr()
}

// Expressions.
type (
	// Col is column Index of the input.
	Col struct {
		Index int
		Name  string // for printing, qualified where that was needed
		T     types.Type
	}
	// Const is a literal. Start and Stop are its position in the statement, for errors that
	// are found only when names are looked up in a program; both are 0 if it has none.
	Const struct {
		V           types.Value
		Start, Stop int
		Param       *Param // the parameter without a value that it stands for, or nil
	}
	// Call applies the scalar function or operator Fn of the table Scalars. Operators are
	// functions with their SQL spelling as name: "=", "<>", "<", "<=", ">", ">=", "+", "-",
	// "*", "/", "%", "||", "and", "or", "not", "neg", "like", "ilike", "~", "is null".
	// Comparisons have operands of one common type; see Scalars for arithmetic.
	//
	// NULL semantics: and/or/is null/coalesce follow SQL's three-valued logic, all others
	// return NULL if an operand is NULL.
	Call struct {
		Fn   string
		Args []Expr
		T    types.Type
	}
	// In tests X against constants of X's type. NULL in X, or in the list without a match,
	// yields NULL.
	In struct {
		X    Expr
		List []Const
	}
	// Case returns Then of the first When that is true, else Else (nil: NULL). Whens are
	// BOOLEAN (CASE x WHEN a is resolved to x = a).
	Case struct {
		Whens []When
		Else  Expr
		T     types.Type
	}
	// When is one arm of a Case.
	When struct{ Cond, Then Expr }
	// Host is the name of the host that executes its share of a statement over several
	// hosts ([Exchange]). It is resolved and replaced by a Const before rules run: operators
	// never see it.
	Host struct {
		Label       string // "": its name; else the value of this label
		Start, Stop int
	}
	// Cast converts. BIGINT, DOUBLE, DURATION and TIMESTAMP convert by their number (ns);
	// to VARCHAR prints as results do; from VARCHAR parses, NULL if it does not parse;
	// BOOLEAN to BIGINT is 0 or 1.
	Cast struct {
		X Expr
		T types.Type
	}
)

func (e *Col) Type() types.Type   { return e.T }
func (e *Const) Type() types.Type { return e.V.Type }
func (e *Call) Type() types.Type  { return e.T }
func (e *In) Type() types.Type    { return types.Boolean }
func (e *Case) Type() types.Type  { return e.T }
func (e *Cast) Type() types.Type  { return e.T }
func (e *Host) Type() types.Type  { return types.Varchar }

func (e *Col) Children() []Expr   { return nil }
func (e *Const) Children() []Expr { return nil }
func (e *Host) Children() []Expr  { return nil }
func (e *Call) Children() []Expr  { return e.Args }
func (e *In) Children() []Expr    { return []Expr{e.X} }
func (e *Cast) Children() []Expr  { return []Expr{e.X} }
func (e *Case) Children() []Expr {
	var cs []Expr
	for _, w := range e.Whens {
		cs = append(cs, w.Cond, w.Then)
	}
	if e.Else != nil {
		cs = append(cs, e.Else)
	}
	return cs
}

func (e *Col) WithChildren([]Expr) Expr     { return e }
func (e *Const) WithChildren([]Expr) Expr   { return e }
func (e *Host) WithChildren([]Expr) Expr    { return e }
func (e *Call) WithChildren(cs []Expr) Expr { return &Call{e.Fn, cs, e.T} }
func (e *In) WithChildren(cs []Expr) Expr   { return &In{cs[0], e.List} }
func (e *Cast) WithChildren(cs []Expr) Expr { return &Cast{cs[0], e.T} }
func (e *Case) WithChildren(cs []Expr) Expr {
	n := &Case{T: e.T}
	for i := range e.Whens {
		n.Whens = append(n.Whens, When{cs[2*i], cs[2*i+1]})
	}
	if e.Else != nil {
		n.Else = cs[len(cs)-1]
	}
	return n
}

func (*Col) expr()   {}
func (*Const) expr() {}
func (*Host) expr()  {}
func (*Call) expr()  {}
func (*In) expr()    {}
func (*Case) expr()  {}
func (*Cast) expr()  {}

// Transform rebuilds e bottom-up: f is called with each node after its children.
func Transform(e Expr, f func(Expr) Expr) Expr {
	if e == nil {
		return nil
	}
	cs := e.Children()
	if len(cs) > 0 {
		n := make([]Expr, len(cs))
		changed := false
		for i, c := range cs {
			n[i] = Transform(c, f)
			changed = changed || n[i] != c
		}
		if changed {
			e = e.WithChildren(n)
		}
	}
	return f(e)
}

// Walk visits e and everything below it, parents first.
func Walk(e Expr, f func(Expr)) {
	if e == nil {
		return
	}
	f(e)
	for _, c := range e.Children() {
		Walk(c, f)
	}
}

// Agg is one aggregate of an [Aggregate] node; Fn is a name of Aggregates.
type Agg struct {
	Fn       string // lower case: count, sum, avg, ...
	Star     bool   // COUNT(*), RATE(*)
	Distinct bool
	Args     []Expr        // over the input; constants already split off
	Params   []types.Value // constant arguments: q of QUANTILE, n of TOPK, lo hi step of HISTOGRAM
	// ArgNames are the names of Args, "" for those by position; nil: none has one.
	ArgNames []string
	Implied  int          // number of Args, at the end, that were not written
	Options  []NamedValue // constant arguments by name, as declared in EncoderForm
	Filter   Expr         // FILTER (WHERE e), or nil
	T        types.Type   // result
}
