package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"endoscope/operators/batch"
	"endoscope/parser"
	"endoscope/server/wire"
)

// explains reports whether a statement asks how a host understands something. Hosts with
// the same program give the same answer, so that it is shown once.
func explains(stmt parser.Statement) bool {
	switch st := stmt.(type) {
	case *parser.Explain:
		return !st.Analyze
	case *parser.Describe:
		return true
	}
	return false
}

// represented is the answer of one host for all.
type represented struct {
	*gathered
	events []wire.Event
	rows   uint64
}

// represent reads the answers of all hosts and returns the one that most of them give, with
// a notice that names the others. Numbers may differ: hosts estimate and measure them.
func (s *session) represent(ctx context.Context, parts []*part) (_ wire.Result, err error) {
	r := &represented{gathered: s.gather(parts, -1, 0)}
	r.separate = true
	rows, notices := map[*part][]*batch.Batch{}, map[*part][]wire.Event{}
	defer func() {
		for _, bs := range rows {
			release(bs)
		}
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	tick := time.NewTicker(patience / 8)
	defer tick.Stop()
	for slices.ContainsFunc(r.parts, r.waitsFor) {
		x, err := r.next(ctx, tick.C)
		if err == io.EOF {
			break
		}
		switch {
		case errors.Is(err, errLate):
		case err != nil:
			return nil, err
		case x.ev.Kind == wire.Notice && !x.over:
			notices[x.part] = append(notices[x.part], x.ev)
		case x.ev.Batch != nil:
			rows[x.part] = append(rows[x.part], x.ev.Batch)
		}
	}
	var answered, most []*part
	shapes, same := map[*part]string{}, map[string][]*part{}
	for _, p := range r.parts {
		if p.res != nil && p.over && !p.lost {
			shape := shapeOf(p.res.Columns(), rows[p])
			answered, shapes[p], same[shape] = append(answered, p), shape, append(same[shape], p)
			if len(same[shape]) > len(most) {
				most = same[shape]
			}
		}
	}
	if most == nil {
		return nil, errors.New("no host has answered")
	}
	first := most[0]
	r.cols, r.events = first.res.Columns(), notices[first]
	var others []string
	for _, p := range answered {
		if shapes[p] != shapes[first] {
			others = append(others, p.name)
		}
	}
	if len(others) > 0 {
		r.events = append(r.events, wire.Event{Kind: wire.Notice, Text: fmt.Sprintf("this is the answer of %s; %d of %d hosts answer otherwise: %s", first.name, len(others), len(s.members), some(others))})
	}
	for _, b := range rows[first] {
		r.rows += uint64(b.Len())
		r.events = append(r.events, wire.Event{Kind: wire.Rows, Batch: b})
	}
	delete(rows, first)
	return r, nil
}

// numbers matches numbers with their units. 4000ns is printed as 4us, so a unit is a part of
// its number.
var numbers = regexp.MustCompile(`([0-9]+(d|h|min))*[0-9][0-9.,]*( ?(ns|us|µs|ms|s|min|h|d|k|M|G|KiB|MiB|GiB|TiB|B)\b)?`)

// shapeOf returns an answer as text, without numbers.
func shapeOf(cols []wire.Column, bs []*batch.Batch) string {
	var text strings.Builder
	fmt.Fprintln(&text, cols)
	for _, b := range bs {
		for i := range b.Len() {
			for c := range b.Cols {
				if v := b.Cols[c].Value(b.Row(i)); v.S != "" {
					text.WriteString(numbers.ReplaceAllString(v.S, "#"))
				}
				text.WriteByte('\t')
			}
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// Next implements wire.Result.
func (r *represented) Next(context.Context) (wire.Event, error) {
	if len(r.events) == 0 {
		return wire.Event{}, io.EOF
	}
	ev := r.events[0]
	r.events = r.events[1:]
	return ev, nil
}

// Close implements wire.Result.
func (r *represented) Close() error {
	for _, ev := range r.events {
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
	r.events = nil
	return r.gathered.Close()
}

// Summary implements wire.Result.
func (r *represented) Summary() wire.Summary {
	sum := r.gathered.Summary()
	sum.Rows = r.rows
	return sum
}
