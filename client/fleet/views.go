package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/server/wire"
)

// checkViews refuses streams that users have defined, and that would be each host's
// own groups where the statement means those of all: what nested.go refuses where
// it stands in the statement. Hosts may differ in what they mean by a name; those that
// do not say are silent, and must not be asked for rows: nobody knows of what.
func (s *session) checkViews(ctx context.Context, q *parser.Query, src string) (silent map[*member]error, err error) {
	members := s.live()
	_, errs := ask(ctx, members, forStatements, func(ctx context.Context, m *member) (struct{}, error) {
		checked := map[string]bool{}
		for _, source := range sources(q) {
			if err := m.checkView(ctx, source, src, source.Name.Name, checked); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	silent = map[*member]error{}
	for i, m := range members {
		switch {
		case errs[i] == nil:
		case gone(errs[i]):
			silent[m] = errs[i]
		default:
			return nil, errs[i]
		}
	}
	return silent, nil
}

// checkView checks one name, at a host; the errors are of the place that the
// statement has it at.
func (m *member) checkView(ctx context.Context, at *parser.Source, src, name string, checked map[string]bool) error {
	if checked[name] || catalog.Find(strings.ToLower(name)) != nil {
		return nil
	}
	checked[name] = true
	text, err := m.definition(ctx, name)
	if err != nil || text == "" {
		return err
	}
	stmt, err := parser.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: what it says of %s cannot be read: %w", m.name, name, err)
	}
	q, ok := stmt.(*parser.Query)
	if !ok {
		return nil
	}
	w := &splitter{q: q, src: text}
	if err := w.checkQuery(q); err != nil {
		var mistake *parser.Error
		if errors.As(err, &mistake) {
			err = &parser.Error{Msg: fmt.Sprintf("%s is such a stream: %s", name, mistake.Msg), Hint: mistake.Hint, Pos: at.Name.Pos(), Src: src}
		}
		return err
	}
	for _, inner := range sources(q) {
		if err := m.checkView(ctx, at, src, inner.Name.Name, checked); err != nil {
			return err
		}
	}
	return nil
}

// definition is what a name stands for at a host; "": it is no stream that somebody
// defined.
func (m *member) definition(ctx context.Context, name string) (text string, err error) {
	r, err := m.session.Execute(ctx, "SHOW STREAMS LIKE '"+strings.ReplaceAll(name, "'", "''")+"'")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		ev, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return "", err
		}
		if ev.Kind != wire.Rows {
			continue
		}
		for i := range ev.Batch.Len() {
			row := ev.Batch.Row(i)
			if ev.Batch.Cols[0].Value(row).S == name && ev.Batch.Cols[1].Value(row).S == "defined" {
				text = ev.Batch.Cols[2].Value(row).S
			}
		}
		ev.Batch.Release()
	}
}
