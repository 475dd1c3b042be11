package replay

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
)

// prepareSeries returns the source of series(n): the numbers from 1 to n, like
// PostgreSQL's generate_series(1, n). It has no event time.
func prepareSeries(spec *plan.Acquire) (probes.Source, error) {
	if len(spec.Args) != 1 || spec.Args[0].V.Type != types.Bigint || spec.Args[0].V.IsNull {
		return nil, plan.Errorf(spec.Start, spec.Stop, "series takes one whole number").WithHint("series(100)")
	}
	for _, f := range spec.Out.Fields {
		if f.Name != "n" || f.Type != types.Bigint {
			return nil, plan.Errorf(spec.Start, spec.Stop, "series has no column %s of type %s", f.Name, f.Type)
		}
	}
	last, kinds := spec.Args[0].V.I, spec.Out.Types()
	return &source{
		filter: spec.Filter,
		site:   probes.Site{Provider: "replay", Function: "series", Method: "replay", CostNs: 1},
		produce: func(sink probes.Sink, stop <-chan struct{}) error {
			pool := batch.NewPool(kinds)
			for next := int64(1); next <= last && !stopped(stop); {
				b := pool.Get()
				b.N = int(min(batch.MaxRows, last-next+1))
				for c := range b.Cols {
					for i := range b.N {
						b.Cols[c].Int = append(b.Cols[c].Int, next+int64(i))
					}
				}
				next += int64(b.N)
				sink.Push(b)
			}
			return nil
		},
	}, nil
}
