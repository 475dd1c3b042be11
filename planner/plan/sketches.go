package plan

import "endoscope/planner/types"

// SketchAggs are the aggregates of quantiles in two steps, for those who keep what
// the first one gives, or compute it at several places.
var SketchAggs = []AggFunc{
	{Name: "sketch", Args: []types.Type{tI, tF, tD}, Result: always(tY),
		Doc: "what QUANTILE keeps of the values (a DDSketch), to be added up with others by SKETCH_QUANTILE"},
	{Name: "sketch_quantile", Args: []types.Type{tY}, Params: []types.Type{tF}, Result: always(tF),
		Doc: "the q-quantile of all values of which the sketches are: what QUANTILE gives of them together; of durations in ns"},
}
