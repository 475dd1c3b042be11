package fleet

import (
	"slices"
	"strconv"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
)

func aggregate(e parser.Expr) (*parser.Call, bool) {
	c, ok := e.(*parser.Call)
	return c, ok && plan.FindAgg(strings.ToLower(c.Name.Name)) != nil
}

func hasAggregate(e parser.Expr) bool {
	_, found := find(e, func(e parser.Expr) bool { _, ok := aggregate(e); return ok })
	return found
}

// find is the first part of an expression for which something holds.
func find(e parser.Expr, holds func(parser.Expr) bool) (parser.Expr, bool) {
	if holds(e) {
		return e, true
	}
	for _, x := range parser.Children(e) {
		if found, ok := find(x, holds); ok {
			return found, true
		}
	}
	return nil, false
}

// ofOneHost reports whether an expression is an aggregate of what only makes sense
// within a host: sequences, which are encoded at one place, the stacks of programs,
// and what there is of entities.
func ofOneHost(e parser.Expr) bool {
	c, ok := e.(*parser.Call)
	if !ok {
		return false
	}
	name := strings.ToLower(c.Name.Name)
	named := func(f plan.AggFunc) bool { return f.Name == name }
	return plan.IsEncoder(name) || slices.ContainsFunc(plan.StackAggs, named) || slices.ContainsFunc(plan.PresentAggs, named)
}

// oneHosts is the first aggregate of the query that only makes sense within a host.
func (w *splitter) oneHosts() (parser.Expr, bool) {
	for _, i := range w.sel.Items {
		if i.X != nil {
			if x, ok := find(i.X, ofOneHost); ok {
				return x, true
			}
		}
	}
	if w.sel.Having != nil {
		if x, ok := find(w.sel.Having, ofOneHost); ok {
			return x, true
		}
	}
	for _, o := range w.q.OrderBy {
		if x, ok := find(o.X, ofOneHost); ok {
			return x, true
		}
	}
	return nil, false
}

// merged has an aggregate's first stage computed by every host, and is what stands
// for it in the second.
func (w *splitter) merged(c *parser.Call) (string, error) {
	text, name := w.text(c), strings.ToLower(c.Name.Name)
	if s, ok := w.seen[text]; ok {
		return s, nil
	}
	if c.Distinct {
		return w.counted(c)
	}
	st, ok := plan.AggStages[name]
	if !ok {
		return "", w.refuse(c, perHostHint, "what hosts find of %s cannot be merged", text)
	}
	filter := w.where
	if c.Filter != nil {
		filter = both(filter, w.text(c.Filter))
	}
	if filter != "" {
		filter = " FILTER (WHERE " + filter + ")"
	}
	arg, params := "*", ""
	if !c.Star {
		var args []string
		for _, a := range c.Args {
			args = append(args, w.text(a))
		}
		if len(args) == 0 {
			return "", w.refuse(c, "", "%s needs an argument", strings.ToUpper(name))
		}
		if arg = args[0]; len(args) > 1 {
			params = ", " + strings.Join(args[1:], ", ")
		}
	}
	if name == "rate" && w.again == bySession { // by the length that the session turns out to have
		st = plan.Stages{First: []string{"count"}, Final: "sum({0})::DOUBLE / to_s(" + endColumn + " - " + startColumn + ")"}
	}
	s := w.staged(st, arg, params, filter)
	w.seen[text] = s
	return s, nil
}

// staged has every host compute the first stage, and is the second one.
func (w *splitter) staged(st plan.Stages, arg, params, filter string) string {
	column := "v" + strconv.Itoa(len(w.values))
	stands := []string{"{params}", params, "{ahead}", aheadColumn}
	for i, fn := range st.First {
		stands = append(stands, "{"+strconv.Itoa(i)+"}", "v"+strconv.Itoa(len(w.values)))
		x := arg
		if st.Shared && i == len(st.First)-1 {
			x += params
		}
		w.values = append(w.values, fn+"("+x+")"+filter)
	}
	w.ahead = w.ahead || strings.Contains(st.Final, "{ahead}")
	by := strings.NewReplacer(stands...)
	final := "(" + by.Replace(st.Final) + ")"
	if st.FinalDuration == "" {
		return final
	}
	s := w.mark + strconv.Itoa(len(w.byType)) + "}"
	w.byType = append(w.byType, choice{s, column, "(" + by.Replace(st.FinalDuration) + ")", final})
	return s
}

// last is the second stage of a column that is neither grouped nor aggregated: its
// last value in each group.
func (w *splitter) last(c *parser.ColumnRef) string {
	text := "LAST(" + w.text(c) + ")"
	if _, ok := w.seen[text]; !ok {
		filter := ""
		if w.where != "" {
			filter = " FILTER (WHERE " + w.where + ")"
		}
		w.seen[text] = w.staged(plan.AggStages["last"], w.text(c), "", filter)
		w.notices = append(w.notices, w.text(c)+" is neither grouped nor aggregated: its last value in each group is shown ("+text+")")
	}
	return w.seen[text]
}

// counted has COUNT(DISTINCT x) computed from the distinct values of all hosts: each
// gives its groups by x, too, and these are counted here. What else is aggregated
// only has smaller groups to be merged of.
func (w *splitter) counted(c *parser.Call) (string, error) {
	if len(c.Args) != 1 {
		return "", w.refuse(c, "", "COUNT(DISTINCT x) takes one argument")
	}
	x, filter := w.text(c.Args[0].X), w.where
	_, literal := c.Args[0].X.(*parser.Literal)
	if c.Filter != nil {
		filter = both(filter, w.text(c.Filter))
	}
	if filter == "" && literal { // alone it would be the number of a column
		filter = "TRUE"
	}
	x = onlyWhere(filter, x)
	i := slices.Index(w.uniques, x)
	if i < 0 {
		i = len(w.uniques)
		w.uniques = append(w.uniques, x)
	}
	return "COUNT(DISTINCT " + uniqueColumn + strconv.Itoa(i) + ")", nil
}

// both is the condition that two conditions hold; "" always does.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return "(" + a + ") AND (" + b + ")"
}

// onlyWhere is an expression that is NULL where a condition does not hold.
func onlyWhere(cond, x string) string {
	if cond == "" {
		return x
	}
	return "CASE WHEN " + cond + " THEN " + x + " END"
}
