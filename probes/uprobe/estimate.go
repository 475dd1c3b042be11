package uprobe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/rates"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// estimateFrom is the number of functions above which a query's cost is estimated before
// it is armed.
const estimateFrom = 100

// beginEstimate starts to sample the machine if spec may select so many functions that
// their cost has to be estimated; otherwise it returns nil. Sampling continues while the
// symbols are read.
func (p *Provider) beginEstimate(spec *plan.Acquire) *rates.Meter {
	if spec.Settings.MaxOverhead == 0 || spec.Target.IsZero() {
		return nil
	}
	if names := selection.NameList(spec.Select); names != nil && len(names) <= estimateFrom {
		return nil
	}
	return rates.Begin()
}

// endEstimate detaches a meter in the background, because the kernel takes long for it.
// Provider.Close waits for it.
func (p *Provider) endEstimate(m *rates.Meter) {
	if m != nil {
		p.background.Go(m.Close)
	}
}

// estimate estimates the cost of the probes of s at the current call rates. It returns a
// notice, and a refusal if the cost is too high. m may be nil.
func (p *Provider) estimate(s *source, m *rates.Meter) (notice string, refusal *plan.Error) {
	spec, r := s.spec, s.resolution
	if spec.Settings.MaxOverhead == 0 || len(r.Functions) <= estimateFrom {
		p.endEstimate(m)
		return "", nil
	}
	if m == nil {
		m = rates.Begin()
	}
	n := r.CountFunctions()
	will := fmt.Sprintf("%d functions will be probed; ", n)
	if !slices.ContainsFunc(r.Running, func(q process.Process) bool { return !process.Stopped(q.PID) }) {
		p.endEstimate(m)
		return will + "what that costs is not known before the program runs", nil
	}
	c, err := measure(s, m)
	switch {
	case err != nil:
		p.endEstimate(m)
		return will + fmt.Sprintf("what that costs cannot be estimated: %v", err), nil
	case c.activity.CPUs == 0:
		p.endEstimate(m)
		return will + "the program is idle, so that this costs nothing now", nil
	case c.CPUs > c.allowed:
		m.Close() // detached before the result is reported
		return will + c.describe(r, "that costs"), c.refuse(spec, r, n)
	}
	p.endEstimate(m)
	return will + c.describe(r, "that costs"), nil
}

// cost is the result of an estimate, and the limit.
type cost struct {
	rates.Estimate
	activity rates.Activity
	allowed  float64 // processors
}

// measure estimates the cost of the probes of s. The limit is a share of the processors that
// the program keeps busy, but at least of one.
func measure(s *source, m *rates.Meter) (c cost, err error) {
	var pids []int
	for _, q := range s.resolution.Running {
		pids = append(pids, q.PID)
	}
	if c.activity, err = m.Observe(pids); err != nil || c.activity.CPUs == 0 {
		return c, err
	}
	c.allowed = s.spec.Settings.MaxOverhead * max(1, c.activity.CPUs)
	c.Estimate, err = m.Estimate(candidates(s, c.activity), c.allowed)
	return c, err
}

// refuse returns the error for a cost above the limit.
func (c cost) refuse(spec *plan.Acquire, r *resolve.Resolution, n int) *plan.Error {
	of := ""
	if c.activity.CPUs >= 1.05 {
		of = fmt.Sprintf(" of the %.1f CPUs that the program uses", c.activity.CPUs)
	}
	e := plan.Errorf(spec.Start, spec.Stop, "probing %d functions costs too much: %s, and at most %.4g %%%s may be spent",
		n, c.describe(r, "it would cost"), 100*spec.Settings.MaxOverhead, of)
	if c.AtLeast {
		return e.WithHint("%schoose fewer functions, leave out the ones named, or lift the limit: SET max_overhead = 0", estimating(spec))
	}
	// Rates fluctuate: a limit that is just sufficient now may be too low in a moment.
	enough := math.Ceil(12*c.CPUs/max(1, c.activity.CPUs)) * 10
	return e.WithHint("%schoose fewer functions, or raise the limit: SET max_overhead = %.0f%%", estimating(spec), enough)
}

// estimating returns the part of a hint that names an overhead, if the query can have one.
func estimating(spec *plan.Acquire) string {
	if spec.Settings.Recall > 0 {
		return "add WITHIN OVERHEAD 1% to RECALL, "
	}
	if spec.Partial == nil || spec.Stream == catalog.Allocation || spec.Stream == catalog.Deallocation {
		return ""
	}
	return "add WITHIN OVERHEAD 1% for estimates with intervals, "
}

// describe returns the estimate as text; verb is the verb for the costs.
func (c cost) describe(r *resolve.Resolution, verb string) string {
	about := "about"
	if c.AtLeast {
		about = "at least"
	}
	share := fmt.Sprintf("%s %s %% of one CPU", about, twoDigits(100*c.CPUs))
	if c.CPUs < 0.01 {
		share = "less than 1 % of one CPU"
	}
	s := fmt.Sprintf("at the current call rates %s %s (%s calls/s", verb, share, callsIn(c.PerSecond))
	if names := c.hottest(r); len(names) > 0 {
		s += ", mostly " + strings.Join(names, ", ")
	}
	return s + ")"
}

// hottest returns the names of the functions called most.
func (c cost) hottest(r *resolve.Resolution) (names []string) {
	byName := map[string]float64{} // a function may be probed in several processes
	for i, rate := range c.Calls {
		byName[r.Functions[i].Label.Function] += rate
	}
	for name := range byName {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(byName[b], byName[a]), strings.Compare(a, b))
	})
	return names[:min(len(names), resolve.MaxNamed)]
}

// callsIn formats a number of calls.
func callsIn(n float64) string {
	switch {
	case n >= 999_500:
		return twoDigits(n/1e6) + " M"
	case n >= 10_000:
		return fmt.Sprintf("%.0f,000", n/1e3)
	}
	return twoDigits(n)
}

// twoDigits rounds to the precision of an estimate.
func twoDigits(x float64) string {
	if x < 9.95 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
	}
	step := math.Pow(10, math.Floor(math.Log10(x))-1)
	return fmt.Sprintf("%.0f", math.Round(x/step)*step)
}

// candidates returns the wants with the samples in their functions.
func candidates(s *source, a rates.Activity) []rates.Candidate {
	r, aggregated := s.resolution, s.aggregation != nil
	out := make([]rates.Candidate, len(r.Functions))
	byEntry := map[*selection.Module][]int{}
	for i, w := range r.Functions {
		price := r.SiteOf(w, s.links, aggregated).CostNs
		for _, x := range w.Exits {
			ns, _ := r.Costs.Site(w, x.Method, s.links, aggregated)
			price += ns / float64(len(w.Exits)) // a call takes one of them
		}
		out[i] = rates.Candidate{Place: rates.Place{File: w.Module.File, Offset: w.Site.Offset, PID: w.Scope.PID}, CostNs: price}
		byEntry[w.Module] = append(byEntry[w.Module], i)
	}
	entry := func(i int) uint64 { return r.Functions[i].Site.Offset - r.Functions[i].Behind }
	places := map[int][]moduleAt{}
	for _, m := range r.Modules.List {
		slices.SortFunc(byEntry[m], func(a, b int) int { return cmp.Compare(entry(a), entry(b)) })
		for _, pl := range m.Mapped {
			places[pl.Process.PID] = append(places[pl.Process.PID], moduleAt{m, pl.Mapping})
		}
	}
	for spot, n := range a.Samples {
		m, offset := locate(places[spot.PID], spot.Addr)
		list := byEntry[m]
		// The last function that begins before, in each of its scopes.
		end, _ := slices.BinarySearchFunc(list, offset+1, func(i int, o uint64) int { return cmp.Compare(entry(i), o) })
		for k := end - 1; k >= 0 && entry(list[k]) == entry(list[end-1]); k-- {
			w := &r.Functions[list[k]]
			if offset-entry(list[k]) < w.Size && (w.Scope.PID == 0 || w.Scope.PID == spot.PID) {
				out[list[k]].Samples += n
			}
		}
	}
	return out
}

// moduleAt is a module as mapped in a process.
type moduleAt struct {
	module  *selection.Module
	mapping process.Mapping
}

// locate returns the module that contains an address, and the offset in its file; nil if
// there is none.
func locate(in []moduleAt, addr uint64) (*selection.Module, uint64) {
	for _, x := range in {
		if x.mapping.Start <= addr && addr < x.mapping.End {
			return x.module, addr - x.mapping.Start + x.mapping.Offset
		}
	}
	return nil, 0
}
