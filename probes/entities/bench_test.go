package entities

import (
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// BenchmarkCalls measures two calls on an object per iteration: decoded, merged
// by time, and turned into rows.
func BenchmarkCalls(b *testing.B) {
	r, err := tables[EntityEvents].Writer(&plan.Acquire{Out: types.Schema{Fields: tables[EntityEvents].Fields()}}, 0)
	if err != nil {
		b.Fatal(err)
	}
	rows := 0
	r.Push = func(b *batch.Batch) { rows += b.Len(); b.Release() }
	w := newWorld(r.Put)
	for _, c := range []string{typeCategory, objectCategory, threadCategory, invocationCategory} {
		w.entities[c] = true
	}
	w.lookupNames = func(int) (string, string) { return "p", "/p" }
	w.look = func(int, int) (string, uint64, bool) { return "t", 1, true }
	w.structors = map[string]structor{}
	var m merge
	var t int64
	b.ReportAllocs()
	for b.Loop() {
		t += 10
		for _, k := range []kind{entered, left} {
			m.add(event{time: t, kind: k, pid: 1, tid: 1, name: "A::f", class: "A", receiver: 16, hasReceiver: true, receiverClass: "A"})
		}
		if t%10_000 == 0 {
			for {
				h, ok := m.next(t + 1)
				if !ok {
					break
				}
				w.apply(h)
			}
			r.Flush()
		}
	}
	if rows == 0 && b.N > 2000 {
		b.Fatal("no rows")
	}
}
