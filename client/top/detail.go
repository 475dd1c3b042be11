package top

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// oneByOne reads some calls of a function; the probes are removed after the last of them.
const oneByOne = `SELECT caller, duration, arg0, arg1, arg2, arg3 FROM function_duration
WHERE %s LIMIT %d FOR 3s`

// callsRead is how many calls of a picked function are read.
const callsRead = 300

// shownArguments is the number of arguments read.
const shownArguments = 4

// detail is what is shown of a picked function.
type detail struct {
	of    key
	paths []path // by which it is called, by samples
	found *found // nil: not yet
}

// found is what some calls of a function show.
type found struct {
	of        key
	calls     int
	callers   []tally
	arguments [shownArguments][]tally
	durations []time.Duration // sorted
	err       error
}

// tally is a value and how often it was seen.
type tally struct {
	text string
	n    int
}

// paths returns the ways to a function, by samples.
func (m *Meter) paths(k key) []path {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.profile.pathsTo(k)
}

// ask reads some calls of a function in the background.
func (m *model) ask(f Function) tea.Cmd {
	return func() tea.Msg {
		if f.Why != "" {
			return &found{of: f.key(), err: fmt.Errorf("its calls are not read: %s", f.Why)}
		}
		return m.meter.read(m.ctx, f.key())
	}
}

// read reads some calls of a function.
func (m *Meter) read(ctx context.Context, k key) *found {
	x := &found{of: k}
	var res wire.Result
	if res, x.err = m.session.Execute(ctx, fmt.Sprintf(oneByOne, condition([]key{k}), callsRead)); x.err != nil {
		return x
	}
	callers, values := map[string]int{}, [shownArguments]map[string]int{}
	x.err = read(ctx, res, func(b *batch.Batch) {
		for i := range b.Len() {
			at := b.Row(i)
			x.calls++
			callers[callerText(b.Cols[0].Value(at))]++
			x.durations = append(x.durations, time.Duration(b.Cols[1].Value(at).I))
			for a := range values {
				if values[a] == nil {
					values[a] = map[string]int{}
				}
				values[a][argumentText(b.Cols[2+a].Value(at))]++
			}
		}
	}, nil, nil)
	slices.Sort(x.durations)
	x.callers = tallies(callers)
	for a := range values {
		x.arguments[a] = tallies(values[a])
	}
	return x
}

func callerText(v types.Value) string {
	if v.IsNull {
		return "(unknown)"
	}
	return v.S
}

// argumentText formats a register: numbers that are addresses in hexadecimal.
func argumentText(v types.Value) string {
	if v.IsNull {
		return "NULL"
	}
	if v.I > 1<<32 || v.I < -1<<32 {
		return fmt.Sprintf("%#x", uint64(v.I))
	}
	return fmt.Sprint(v.I)
}

// tallies returns the counts, the greatest first.
func tallies(n map[string]int) (all []tally) {
	for text, n := range n {
		all = append(all, tally{text, n})
	}
	slices.SortFunc(all, func(a, b tally) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.text, b.text)) })
	return all
}

// bucket is a class of a histogram: durations below its end, which is a power of two.
type bucket struct {
	below time.Duration
	n     int
}

// histogram divides sorted durations by powers of two. It returns all buckets between the
// first and the last.
func histogram(sorted []time.Duration) (all []bucket) {
	for _, d := range sorted {
		below := time.Duration(1) << bits.Len64(uint64(max(d, 1)))
		for len(all) > 0 && all[len(all)-1].below < below {
			all = append(all, bucket{below: 2 * all[len(all)-1].below})
		}
		if len(all) == 0 {
			all = append(all, bucket{below: below})
		}
		all[len(all)-1].n++
	}
	return all
}
