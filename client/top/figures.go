package top

import (
	"slices"
	"time"
)

const (
	// usualPrice is the cost of a call whose duration is measured, in seconds, until it is known.
	usualPrice = 1e-6
	// mostCounted bounds the functions that are counted.
	mostCounted = 100
	// measured is the period over which the cost of samples is averaged.
	measured = 10 * time.Second
)

// figure is what is known of the calls of a function.
type figure struct {
	how      How
	rate     float64 // calls per second; negative: unknown
	avg, p99 time.Duration
	why      string // why its calls cannot be counted; "": they can
	n        int64  // calls until then, if each was counted
	at       time.Time
}

// figures are what is known of functions that were counted.
type figures struct {
	known map[key]*figure
	began time.Time // when counting began
	price float64   // of a call
}

func newFigures() figures { return figures{known: map[key]*figure{}, price: usualPrice} }

// choose returns the functions to count: those that are, and of the candidates, in their order,
// as many others as there is room for.
func (fs *figures) choose(candidates, counted []key) []key {
	set := slices.Clone(counted)
	for _, k := range candidates {
		if f := fs.known[k]; len(set) < mostCounted && (f == nil || f.why == "") && !slices.Contains(set, k) {
			set = append(set, k)
		}
	}
	return set
}

// begin says that a set is counted from now on. Until something is known of a function again,
// it has the figures that it had.
func (fs *figures) begin(set []key, now time.Time) {
	fs.began = now
	for _, k := range set {
		if f := fs.known[k]; f != nil {
			f.n, f.at = 0, now
		}
	}
}

// record stores what is known of a set since counting began. cost is what its calls have cost.
func (fs *figures) record(set []key, rows []called, now time.Time, cost time.Duration) {
	seen := 0.0
	for _, c := range rows {
		if !slices.Contains(set, c.key) {
			continue
		}
		seen += float64(c.n) * c.share
		f := fs.known[c.key]
		if f == nil {
			f = &figure{at: fs.began}
			fs.known[c.key] = f
		}
		if f.why == "" {
			f.take(c, now, fs.began)
		}
	}
	if seen > 100 && cost > 0 {
		fs.price = cost.Seconds() / seen
	}
}

// take stores what is known of the calls of a function. The rate is that since it was known last,
// if each call is counted, and else the mean since counting began.
func (f *figure) take(c called, now, began time.Time) {
	n, since := c.n, began
	switch {
	case c.exact:
		f.how = Counted
		n, since = c.n-f.n, f.at
	case c.bounded:
		f.how = Estimated
	default:
		f.how = AtLeast
	}
	if took := now.Sub(since).Seconds(); took > 0 && n >= 0 {
		f.rate = float64(n) / took
	}
	f.avg, f.p99, f.n, f.at = c.avg, c.p99, c.n, now
}
