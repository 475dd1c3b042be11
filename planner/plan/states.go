package plan

import "endoscope/planner/types"

// Suffixes of the names in StateAggs.
const (
	StateSuffix = "_state"
	MergeSuffix = "_merge"
	timeSuffix  = "_time"
)

// StateAggs are aggregates in two steps, for those who compute the first one at several
// places: of X, X_STATE(x) is what X keeps of values, and X_MERGE(x, state) is X of all
// the values that states are of; its x only says of which type they are. FIRST and LAST
// of several places are by the times of theirs.
var StateAggs = func() []AggFunc {
	var table []AggFunc
	for _, f := range AggFuncs {
		switch f.Name {
		case "stddev", "variance", "histogram", "topk":
		default:
			continue
		}
		state, merge := f, f
		state.Name, state.Result = f.Name+StateSuffix, always(tY)
		state.Doc = "what " + f.Name + " keeps of the values, to be added up with others by " + f.Name + MergeSuffix
		merge.Name, merge.More = f.Name+MergeSuffix, []types.Type{tY}
		merge.Doc = f.Name + MergeSuffix + "(x, state): " + f.Name + " of all values of which the states are; any value x says of which type they are"
		table = append(table, state, merge)
	}
	return append(table,
		AggFunc{Name: "first_time", Args: []types.Type{tA}, Result: always(tT), Doc: "event time of the earliest row with a value"},
		AggFunc{Name: "last_time", Args: []types.Type{tA}, Result: always(tT), Doc: "event time of the latest row with a value"},
		AggFunc{Name: "first_by", Args: []types.Type{tA}, More: []types.Type{tT}, Result: itself, Doc: "first_by(x, t): value of the row with the earliest t"},
		AggFunc{Name: "last_by", Args: []types.Type{tA}, More: []types.Type{tT}, Result: itself, Doc: "last_by(x, t): value of the row with the latest t"},
	)
}()
