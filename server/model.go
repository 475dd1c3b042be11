package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/query"
	"endoscope/server/store"
	"endoscope/server/wire"
)

// createModel runs CREATE MODEL: the encodings that its query returns are
// merged into the model.
func (s *session) createModel(ctx context.Context, st *parser.CreateModel, text string) (wire.Result, error) {
	p, err := s.planModel(st, text)
	if err != nil {
		return nil, err
	}
	q, err := s.startQuery(ctx, nil, text, p)
	if err != nil {
		return nil, err
	}
	return &modelResult{
		Result: query.Result{Query: q, Forget: func() { s.forget(q) }, Notices: q.Notices()},
		models: s.e.models, statement: st, text: text,
	}, nil
}

// planModel plans CREATE MODEL, if it is permitted.
func (s *session) planModel(st *parser.CreateModel, text string) (*plan.Query, error) {
	name := st.Name.Name
	if err := s.may.MayModel(); err != nil {
		return nil, answer.Forbidden(err, st.Name, text)
	}
	if old, err := s.e.models.Get(s.scope.Resolve(name)); (old != nil || err != nil) && !st.Replace {
		return nil, modelExists(st, text)
	}
	return planner.PlanModel(st, text, s.env())
}

func modelExists(st *parser.CreateModel, text string) error {
	return answer.Refuse(st.Name, text, "CREATE OR REPLACE MODEL, or DROP MODEL "+st.Name.Name, "there is a model %s already", st.Name.Name)
}

// modelResult is the result of CREATE MODEL. It consumes the rows of the query,
// and returns a message when the model is created.
type modelResult struct {
	query.Result
	models    *store.Models
	statement *parser.CreateModel
	text      string
	found     []encoders.Encoding
	message   atomic.Pointer[string] // nil until the model is created; read by other goroutines
}

func (r *modelResult) Message() string {
	if m := r.message.Load(); m != nil {
		return *m
	}
	return ""
}

func (r *modelResult) Next(ctx context.Context) (wire.Event, error) {
	for {
		ev, err := r.Result.Next(ctx)
		switch {
		case err == io.EOF && r.message.Load() == nil:
			return r.make()
		case err != nil || ev.Kind == wire.Notice:
			return ev, err
		case ev.Kind == wire.Rows:
			r.collect(&ev)
		}
	}
}

// collect collects the encodings of final rows.
func (r *modelResult) collect(ev *wire.Event) {
	defer ev.Batch.Release()
	if ev.Preview {
		return
	}
	for i := range ev.Batch.Len() {
		v := ev.Batch.Cols[0].Value(ev.Batch.Row(i))
		if x, ok := v.A.(encoders.Encoding); ok && !v.IsNull {
			r.found = append(r.found, x)
		}
	}
}

// make creates the model. A failure to save it is a notice.
func (r *modelResult) make() (wire.Event, error) {
	m, err := mergeEncodings(r.found)
	if err != nil {
		return wire.Event{}, answer.Refuse(r.statement.Name, r.text, "", "%v", err)
	}
	name := r.statement.Name.Name
	ok, unsaved := r.models.Put(&store.Model{Name: name, Definition: r.statement.String(), Owner: r.Query.Grant.Name(), Created: time.Now().UTC(), Model: m}, r.statement.Replace)
	if !ok {
		return wire.Event{}, modelExists(r.statement, r.text)
	}
	message := fmt.Sprintf("model %s created: %s of %s, %s", name, an(m.Kind()), answer.Plural(int64(m.Encoding().Of().Sequences), "sequence"), m.Size())
	r.message.Store(&message)
	if unsaved != nil {
		return wire.Event{Kind: wire.Notice, Text: fmt.Sprintf("the model is not saved, and ends with this program: %v", unsaved)}, nil
	}
	return wire.Event{}, io.EOF
}

// an returns a noun with its article.
func an(noun string) string {
	if noun[0] == 'a' {
		return "an " + noun
	}
	return "a " + noun
}

// mergeEncodings returns the model of all encodings.
func mergeEncodings(all []encoders.Encoding) (*structure.Model, error) {
	if len(all) == 0 {
		return nil, errors.New("no sequences: there is nothing to make a model of")
	}
	x := all[0]
	if len(all) > 1 {
		m, ok := x.(encoders.Mergeable)
		if !ok {
			return nil, errors.New("a model is made of an automaton or a grammar")
		}
		var err error
		if x, err = m.Merge(all[1:]); err != nil {
			return nil, err
		}
	}
	if of := x.Of(); !of.Complete() {
		return nil, fmt.Errorf("only %d of %d symbols were encoded, since encoder_budget was used up: such a model would refuse the rest", of.Encoded, of.Symbols)
	}
	return structure.NewModel(x)
}

// dropModel runs DROP MODEL. Queries that use the model keep it.
func (s *session) dropModel(st *parser.Drop, text string) (wire.Result, error) {
	if err := s.may.MayModel(); err != nil {
		return nil, answer.Forbidden(err, st.Name, text)
	}
	found, err := false, error(nil)
	if key := s.scope.Resolve(st.Name.Name); key != "" {
		found, err = s.e.models.Drop(key)
	}
	if err != nil {
		return nil, answer.Refuse(st.Name, text, "", "model %s cannot be removed: %v", st.Name.Name, err)
	}
	if !found {
		return nil, answer.Refuse(st.Name, text, planner.DidYouMean(st.Name.Name, s.scope.Visible(s.e.models.ModelNames())), "there is no model %s", st.Name.Name)
	}
	return answer.Messagef("model %s dropped", st.Name.Name), nil
}

// describeModel returns the result of DESCRIBE model: its text, one line per
// row.
func describeModel(k *store.Model) *answer.Table {
	rel := answer.NewTable(answer.Text(k.Model.Kind()))
	for _, line := range strings.Split(k.Model.Encoding().String(), "\n") {
		rel.Add(types.Str(line))
	}
	rel.Notices = []string{k.Definition}
	return rel
}

// showModels returns the result of SHOW MODELS. A model that cannot be read is
// listed with its error.
func (s *session) showModels() *answer.Table {
	rel := answer.NewTable(answer.Text("model"), answer.Text("kind"), answer.Text("size"), answer.Number("sequences"), answer.Number("symbols"),
		wire.Column{Name: "created", Type: types.Timestamp}, answer.Text("definition"), answer.Text("owner"))
	for _, key := range s.e.models.ModelNames() {
		if !s.scope.Has(key) {
			continue
		}
		k, err := s.e.models.Summary(key)
		if err != nil {
			rel.Notices = append(rel.Notices, fmt.Sprintf("model %s cannot be read: %v", s.scope.Shown(key), err))
		}
		if k == nil {
			continue // dropped just now
		}
		owner, name := definitions.Split(key)
		rel.Add(types.Str(name), types.Str(k.Kind), types.Str(k.Size), types.Int(k.Sequences), types.Int(k.Symbols),
			types.Time(k.Created.UnixNano()), types.Str(k.Definition), types.Str(owner))
	}
	return rel
}
