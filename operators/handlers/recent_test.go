package handlers

import (
	"slices"
	"testing"
)

// What a loop calls is a handler for as long as it is called, and one to two spans
// longer; without a span for good.
func TestHandlerIsForgottenAfterItsSpan(t *testing.T) {
	find := func(r *Recent) (names []string) {
		for _, h := range r.Analyse(Defaults) {
			names = append(names, h.Function)
		}
		return names
	}
	for _, span := range []int64{0, 10} {
		r := Recent{Span: span}
		second := func(at int64, handler string) {
			for range 100 {
				r.Add(stack("-poll loop main -_start"), Wait)
				r.Add(stack(handler+" loop main -_start"), Run)
			}
			r.Advance(at)
		}
		at := int64(1000)
		for range 25 {
			second(at, "first")
			at++
		}
		if got := find(&r); !slices.Equal(got, []string{"first"}) {
			t.Errorf("span %d: %v", span, got)
		}
		second(at, "second") // now there are two
		if got := find(&r); !slices.Equal(got, []string{"first", "second"}) {
			t.Errorf("span %d: %v", span, got)
		}
		for range 9 {
			at++
			second(at, "second")
		}
		if got := find(&r); !slices.Equal(got, []string{"first", "second"}) {
			t.Errorf("span %d, not long after: %v", span, got)
		}
		for range 12 {
			at++
			second(at, "second")
		}
		want := []string{"second"}
		if span == 0 {
			want = []string{"first", "second"}
		}
		if got := find(&r); !slices.Equal(got, want) {
			t.Errorf("span %d, long after: %v", span, got)
		}
		r.Advance(at + 100)
		if got := find(&r); span > 0 && len(got) > 0 {
			t.Errorf("span %d, much later: %v", span, got)
		}
	}
}
