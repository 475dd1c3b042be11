package agg

import "fmt"

// Precision says how well the results of an aggregate with estimates are known.
type Precision struct {
	Groups, Known int // groups, and those of them that are known well enough
	Unseen        int // places that were looked at too rarely to say whether they have a group
	Within        float64
	Confidence    float64
}

// Enough reports whether all is known well enough.
func (p Precision) Enough() bool { return p.Groups > 0 && p.Known == p.Groups && p.Unseen == 0 }

// Add adds that of another aggregate of the query.
func (p *Precision) Add(o Precision) {
	p.Groups, p.Known, p.Unseen = p.Groups+o.Groups, p.Known+o.Known, p.Unseen+o.Unseen
	p.Within, p.Confidence = o.Within, o.Confidence
}

// String says what is asked for.
func (p Precision) String() string {
	return fmt.Sprintf("known within %.4g %% at confidence %.4g %%", 100*p.Within, 100*p.Confidence)
}

// HasPrecision reports whether the query ends when the results are known well enough.
func (a *Aggregate) HasPrecision() bool { return a.node.Precision > 0 }

// Precision returns how well the results are known. A group is known well enough if each of
// its aggregates is.
func (a *Aggregate) Precision() (Precision, error) {
	p := Precision{Within: a.node.Precision, Confidence: a.node.Confidence}
	_, groups, err := a.regroup(a.all)
	if err != nil {
		return p, err
	}
	events, elapsed := a.hidden(a.all, 0), max(a.now()-a.Start, 1)
	for g := range groups {
		if groups[g].Events(events) == 0 {
			continue
		}
		p.Groups++
		if groups[g].Exact() {
			p.Known++
			continue
		}
		known := true
		for i := range a.node.Aggs {
			r := groups[g].Aggregate(&a.node.Aggs[i], a.all.accs[i], elapsed)
			known = known && !r.Null && r.Within(p.Within)
		}
		if known {
			p.Known++
		}
	}
	if len(groups) > 0 {
		p.Unseen = groups[0].Places.Unseen()
	}
	return p, nil
}
