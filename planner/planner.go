package planner

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/rules"
	"endoscope/planner/types"
)

// Env is the context of planning.
type Env struct {
	Views *definitions.Views
	// Contexts are those of CREATE CONTEXT; nil if there are none.
	Contexts *definitions.Contexts
	// Triggers are the defined triggers; nil if there are none.
	Triggers *definitions.Triggers
	// Scope resolves the names of definitions. The zero value: all belong to the
	// engine's own user.
	Scope  definitions.Scope
	Target plan.Target // the session's; zero if it has none
	// ByThread makes sources return the names of threads, read or not, because the
	// rows of some threads must not be reported.
	ByThread bool
	// Resolves is set if WEBHOOK also reports the end of what it reported.
	Resolves bool
	// NoKernel plans as if sources could compute nothing.
	NoKernel bool
	// File returns the columns of a file; its error is shown to the user.
	File func(path string) (types.Schema, error)
	// Models are the models that CONFORMS and ANOMALY can name; nil if there are none.
	Models Models
	// Values returns the types of the columns of an acquisition that are values of
	// functions, by column; nil: no program is known.
	Values func(a *plan.Acquire) ([]types.Type, error)
	// Programs returns a target with the executables that satisfy its condition, and with the
	// paths of its files; nil: the machine's programs are not known.
	Programs func(plan.Target) (plan.Target, error)
	// Eval computes an expression without columns.
	Eval func(plan.Expr) (types.Value, error)
	// Overhead is the share of its processor time that observing calls may cost a program
	// (SET overhead); 0: results are exact.
	Overhead float64
	// MostOverhead is the largest overhead that the user may allow, of all queries together: what
	// cannot be estimated is refused then; 0: there is none.
	MostOverhead float64
	// OverheadFloor is the number of processors that a program is taken to use at least.
	OverheadFloor float64
	// Params are the values of $1, $2, ...
	Params []types.Value
	// Host is the name of the host that plans its share of a statement over several
	// hosts ([PlanShare]): the value of the column host. "": the statement has one
	// host.
	Host string
	// Labels are the values of host_label().
	Labels map[string]string
	// Results are those of standing queries; nil if there are none.
	Results Results
	// Standing: the statement is one of CREATE QUERY (package standing).
	Standing bool
	// Unbound collects the types of parameters without a value, which are then planned
	// as NULL; used for plans that only describe a result. nil: parameters need
	// values.
	Unbound *Unbound
}

// Unbound are the parameters of a statement that is planned without values. The
// zero value is ready to use.
type Unbound struct{ params map[int]*plan.Param }

func (u *Unbound) param(n int) *plan.Param {
	if u.params == nil {
		u.params = map[int]*plan.Param{}
	}
	if u.params[n] == nil {
		u.params[n] = &plan.Param{}
	}
	return u.params[n]
}

// Types returns the types of $1 to $n; Null for those of any type.
func (u *Unbound) Types(n int) []types.Type {
	kinds := make([]types.Type, n)
	for i := range kinds {
		kinds[i] = u.params[i+1].Type()
	}
	return kinds
}

// Models are the models defined by CREATE MODEL, by qualified name.
type Models interface {
	// Model returns a model as a value for operators only. If the model
	// exists but cannot be read, it returns true and an error.
	Model(name string) (v types.Value, found bool, err error)
	ModelNames() []string
}

// Results are the stored results of standing queries, by qualified name.
type Results interface {
	// Columns returns the columns of a query. They are not known before its first result.
	Columns(name string) (fields []types.Field, found, known bool)
	Names() []string
}

// Plan resolves and rewrites a query. src is the text that its positions refer to.
// Errors are *parser.Error.
func Plan(q *parser.Query, src string, env *Env) (*plan.Query, error) {
	return resolving(env, src, func(r *resolver) (*plan.Query, error) {
		r.maySample = true
		root, err := r.query(q, nil, top)
		if err != nil {
			return nil, err
		}
		return r.finish(root.node, q.For)
	})
}

// PlanInsert plans INSERT INTO file('path') query.
func PlanInsert(ins *parser.Insert, src string, env *Env) (*plan.Query, error) {
	return resolving(env, src, func(r *resolver) (*plan.Query, error) {
		r.finals, r.maySample = true, true
		return r.insert(ins, false)
	})
}

// insert plans an INSERT that replaces the content of the file, or appends to it.
func (r *resolver) insert(ins *parser.Insert, add bool) (*plan.Query, error) {
	root, err := r.query(ins.Query, nil, top)
	if err != nil {
		return nil, err
	}
	if !tabular(ins.Path.Str) {
		return nil, r.errorf(ins.Path.Pos(), "cannot write to '%s': only .csv and .jsonl files are known", ins.Path.Str)
	}
	return r.finish(&plan.Insert{Input: root.node, Path: ins.Path.Str, Append: add}, ins.Query.For)
}

// CheckView refuses a CREATE STREAM whose query is not valid.
func CheckView(c *parser.CreateStream, src string, env *Env) error {
	own := env.Scope.Resolve(c.Name.Name)
	r := &resolver{env: env.defining(), src: src, views: []string{own}}
	if err := r.newName("a stream", c.Name); err != nil {
		return err
	}
	if s := catalog.Find(c.Name.Name); s != nil {
		return r.errorf(c.Name.Pos(), "%s is a built-in stream and cannot be redefined", s.Name)
	}
	if r.env.Triggers.Has(own) {
		return r.hintf(c.Name.Pos(), "choose another name", "there is a trigger %s, whose name is a stream", c.Name.Name)
	}
	if c.Query.For != nil {
		return r.errorf(c.Query.For.Pos(), "FOR belongs to the query that uses the stream, not to its definition")
	}
	if err := r.misplacedOverhead(c.Query); err != nil {
		return err
	}
	if err := r.misplacedPrecision(c.Query); err != nil {
		return err
	}
	_, err := r.query(c.Query, nil, definition)
	return err
}

// defining returns the environment of a definition: the overhead is that of the session that
// uses it.
func (e *Env) defining() *Env {
	own := *e
	own.Overhead = 0
	return &own
}

func (r *resolver) finish(root plan.Node, dur *parser.Literal) (*plan.Query, error) {
	out := &plan.Query{}
	if dur != nil {
		if dur.Int <= 0 {
			return nil, r.errorf(dur.Pos(), "FOR needs a duration above zero")
		}
		out.For = time.Duration(dur.Int)
	}
	var err error
	out.Root, out.Fired, err = rules.Rewrite(root, &rules.Env{Eval: r.env.Eval, Session: r.env.Target, NoKernel: r.env.NoKernel})
	if err != nil {
		return nil, r.placed(err)
	}
	if out.Root, err = r.withContexts(rules.Lines(out.Root)); err != nil {
		return nil, err
	}
	for _, leaf := range plan.Leaves(out.Root) {
		s := catalog.Find(leaf.Stream)
		if s != nil && s.Process && !s.Everywhere && leaf.Target.IsZero() {
			hint := cmp.Or(targetOfSession(out.Root, leaf), targetOfPattern(leaf), "add WHERE process = 'name' (or pid = 42, or exe = '/path'), run USE 'name', or start with -p PID")
			return nil, r.hintf(parser.Span{Start: leaf.Start, Stop: leaf.Stop}, hint, "%s needs a target process", leaf.Stream)
		}
	}
	if out.Root, err = r.findPrograms(out.Root); err != nil {
		return nil, err
	}
	if err := r.findTypes(out.Root); err != nil {
		return nil, err
	}
	if err := r.checkFirstStages(out.Root); err != nil {
		return nil, err
	}
	if err := r.checkCeiling(out.Root); err != nil {
		return nil, err
	}
	r.noticeSessions(out.Root)
	out.Notices = r.notices
	return out, nil
}

// placed adds the text that the offsets refer to, to an error of a later stage.
func (r *resolver) placed(err error) error { return Placed(err, r.src) }

// Placed converts a *plan.Error to the *parser.Error that users see; src is the
// statement that its offsets refer to. Other errors are returned unchanged.
func Placed(err error, src string) error {
	var pe *plan.Error
	if !errors.As(err, &pe) {
		return err
	}
	var in *plan.InColumn
	if errors.As(err, &in) {
		if at, ok := placeOfColumn(in.Column, src); ok {
			return &parser.Error{Msg: pe.Msg, Hint: pe.Hint, Pos: at, Src: src}
		}
	}
	e := &parser.Error{Msg: pe.Msg, Hint: pe.Hint, Pos: parser.Span{Start: -1}}
	if pe.Stop > pe.Start && pe.Start >= 0 && pe.Stop <= len(src) {
		e.Pos, e.Src = parser.Span{Start: pe.Start, Stop: pe.Stop}, src
	}
	return e
}

// ViewSchema lists the columns of a user's stream with this qualified name.
func ViewSchema(qualified string, c *parser.CreateStream, env *Env) ([]types.Field, error) {
	r := &resolver{env: env.defining(), src: c.String(), views: []string{qualified}}
	s, err := r.query(c.Query, nil, definition)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(s.fields()[:s.visible])
	for i, f := range out {
		if f.Type == types.Null && f.Name == resultColumn {
			out[i].Type = types.Bigint // unless the type is known from the program
		}
	}
	return out, nil
}
