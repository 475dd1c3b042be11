package plan

import "endoscope/planner/types"

// SketchAggs compute quantiles in two steps, for sketches that are stored or computed
// at several sites.
var SketchAggs = []AggFunc{
	{Name: "sketch", Args: []types.Type{tI, tF, tD}, Result: always(tY),
		Doc: "the state of QUANTILE (up to 1,000 values, or a DDSketch), to be merged with others by SKETCH_QUANTILE"},
	{Name: "sketch_quantile", Args: []types.Type{tY}, Params: []types.Type{tF}, Result: always(tF),
		Doc: "the q-quantile of all values in the sketches, equal to QUANTILE over the values; durations in ns"},
}
