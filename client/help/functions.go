package help

import (
	"regexp"
	"slices"
	"strings"

	"endoscope/planner/plan"
)

// Function is a function of the language, in one line.
type Function struct{ Name, Summary string }

// Functions lists the functions of the language by name: those like a pattern, with the
// wildcards % and _, or those that begin with it; "": all.
func Functions(pattern string) (all []Function) {
	quoted := regexp.QuoteMeta(strings.ToLower(pattern))
	if strings.ContainsAny(pattern, "%_*") {
		quoted = strings.NewReplacer("%", ".*", `\*`, ".*", "_", ".").Replace(quoted) + "$"
	}
	like, err := regexp.Compile("^" + quoted)
	if err != nil {
		return nil
	}
	add := func(name, doc string) {
		if like.MatchString(name) && !slices.ContainsFunc(all, func(f Function) bool { return f.Name == name }) {
			all = append(all, Function{name, doc})
		}
	}
	for _, table := range [][]plan.AggFunc{plan.AggFuncs, plan.Encoders, plan.StackAggs, plan.SketchAggs, plan.PresentAggs} {
		for i := range table {
			add(table[i].Name, table[i].Doc)
		}
	}
	for i := range plan.Scalars {
		if f := &plan.Scalars[i]; isWord(f.Name) && !operator(f) && !strings.Contains(f.Name, ".") {
			add(f.Name, f.Doc)
		}
	}
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return all
}
