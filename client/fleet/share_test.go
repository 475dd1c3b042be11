package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// A host that means something else by the query is declined, with the reason, and the
// others go on.
func TestOtherContractsAreDeclined(t *testing.T) {
	for _, of := range []struct{ other, why string }{
		{strings.Replace(totalStatement, "EMIT EVERY 1s", "", 1), "(b: the query means something else there: it sends states of groups once where the others send states of groups again and again)"},
		{strings.Replace(totalStatement, "COUNT(*)", "COUNT(arg1)", 1), "(b: the query means something else there: it computes count(arg1) where the others compute count(*))"},
	} {
		a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
		b.other = of.other
		r := results(t, sessionOf(a, b), totalStatement)
		a.send(a.rows([]int64{0, 1, 1}), flush)
		expect(t, r, "1 1", "flush")
		a.end()
		rest(t, r)
		if notes := strings.Join(r.Summary().Notes, "; "); !strings.Contains(notes, "1 of 2 hosts "+of.why) {
			t.Errorf("the footer has %s", notes)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// FuzzShare executes any bytes as a host's share: the outcome is a result or an
// error.
func FuzzShare(f *testing.F) {
	for _, statement := range []string{rowsStatement, windowStatement, totalStatement, changeStatement, sessionStatement,
		"SELECT FIRST(arg0), STDDEV(arg0), TOPK(arg1, 2), COUNT(DISTINCT arg1) FROM function_start",
		"SELECT arg0 FROM TUMBLE(function_start, 1s) ORDER BY arg1 LIMIT 2", "SELECT MAX(c) FROM (SELECT COUNT(*) AS c FROM function_start GROUP BY arg0)"} {
		lower, upper, err := sharePlan("a", statement)
		if err != nil {
			f.Fatal(err)
		}
		sent, err := planpb.Encode(upper)
		if err != nil {
			f.Fatal(err)
		}
		var kinds []byte
		for _, t := range lower.Root.Schema().Types() {
			kinds = append(kinds, byte(t))
		}
		f.Add(sent, kinds, int64(7))
	}
	f.Fuzz(func(t *testing.T, sent, kinds []byte, v int64) {
		if len(kinds) == 0 || len(kinds) > 64 {
			return
		}
		h := newScripted("a")
		for i, k := range kinds {
			k := types.Type(k)
			if k < types.Boolean || k > types.Bytes {
				return
			}
			h.cols = append(h.cols, wire.Column{Name: fmt.Sprint(i), Type: k})
		}
		d, err := planpb.Decode(sent)
		if err != nil {
			return
		}
		var cols []wire.Column
		for _, f := range d.Upper.Schema().Fields {
			cols = append(cols, wire.Column{Name: f.Name, Type: f.Type})
		}
		p := &part{name: "a", member: &member{name: "a"}, res: &scriptedResult{s: h, stopped: make(chan struct{}, 100), share: &wire.Share{Plan: sent, Columns: cols}}}
		u, err := upperOf(p, fragments{})
		if err != nil {
			return
		}
		h.send(wire.Event{Kind: wire.Rows, Batch: someRow(typesOf(h.cols), v)}, flush, mark(math.MaxInt64/2))
		h.end()
		r, err := (&session{members: []*member{p.member}}).result([]*part{p}, u)
		if err != nil {
			return
		}
		defer r.Close()
		for {
			ev, err := r.Next(context.Background())
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Log(err)
				}
				return
			}
			if ev.Batch != nil {
				ev.Batch.Release()
			}
		}
	})
}

// someRow is a row of some values.
func someRow(kinds []types.Type, v int64) *batch.Batch {
	b := batch.New(kinds)
	row := make([]types.Value, len(kinds))
	for i, k := range kinds {
		row[i] = types.Value{Type: k, I: v, F: float64(v), S: fmt.Sprint(v)}
		if k == types.Boolean {
			row[i].I &= 1
		}
	}
	b.AppendRow(row...)
	return b
}
