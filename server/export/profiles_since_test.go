package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"endoscope/planner"
	"endoscope/planner/types"
)

// accepted is a store that adds up the profiles that it accepts.
type accepted struct {
	down bool
	sums map[string]int64 // by function
}

func (s *accepted) push(_ context.Context, series []labelledProfile) error {
	if s.down {
		return errors.New("away")
	}
	for _, one := range series {
		p, err := profile.Parse(bytes.NewReader(one.profile))
		if err != nil {
			return err
		}
		for _, x := range p.Sample {
			s.sums[x.Location[0].Line[0].Function.Name] += x.Value[0]
		}
	}
	return nil
}

func (s *accepted) close() {}

// A store has every count once: also of stacks that the limit of series leaves out for a
// while, of those counted while the store was away, and of counts that began again.
func TestProfilesCountOnce(t *testing.T) {
	e := &Export{Plan: callsPlan(10, every), Created: time.Now()}
	e.Plan.Stack, e.Plan.Labels = 0, []planner.Label{{Name: "stack"}}
	s := &accepted{sums: map[string]int64{}}
	to := newProfiles(s)
	for i, step := range []struct {
		down   bool
		counts map[string]float64
		want   map[string]int64
	}{
		{false, map[string]float64{"a": 5, "b": 3}, map[string]int64{"a": 5, "b": 3}},
		{false, map[string]float64{"b": 4}, map[string]int64{"a": 5, "b": 4}},
		{true, map[string]float64{"a": 6, "b": 9}, map[string]int64{"a": 5, "b": 4}},
		{false, map[string]float64{"a": 7, "b": 9}, map[string]int64{"a": 7, "b": 9}},
		{false, map[string]float64{"a": 2, "b": 9}, map[string]int64{"a": 9, "b": 9}},
	} {
		s.down = step.down
		shot := &Snapshot{At: int64(i + 1), Points: nil}
		for name, n := range step.counts {
			shot.Points = append(shot.Points, Point{Labels: []string{name}, Values: []float64{n}, Stack: []types.Value{types.Str(name)}})
		}
		slices.SortFunc(shot.Points, func(a, b Point) int { return slices.Compare(a.Labels, b.Labels) })
		if _, err := to.metrics(t.Context(), e, shot); (err != nil) != step.down {
			t.Fatal(err)
		}
		if fmt.Sprint(s.sums) != fmt.Sprint(step.want) {
			t.Errorf("step %d: %v, want %v", i+1, s.sums, step.want)
		}
	}
}
