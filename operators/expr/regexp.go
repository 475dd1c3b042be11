package expr

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// compileRegexp compiles the pattern argument of e; where is that argument, for the
// position of an error.
func compileRegexp(where plan.Expr, pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		why := err.Error()
		var se *syntax.Error
		if errors.As(err, &se) {
			why = se.Code.String() + ": " + se.Expr
		}
		return nil, refuse(where, "'%s' is not a regular expression: %s", pattern, why)
	}
	return re, nil
}

func matches(e *plan.Call, args []node) (node, error) {
	return newMatch(e, args, func(p string) (likeMatcher, error) {
		re, err := compileRegexp(e.Args[1], p)
		if err != nil {
			return nil, err
		}
		return re.MatchString, nil
	})
}

// regexpExtract returns the n-th group of the first match (0: the match). It is NULL if
// nothing matches, or the group did not participate or does not exist. Package regexp
// allocates the match; for a dictionary column that is once per entry.
func regexpExtract(e *plan.Call, args []node) (node, error) {
	lately := &patternCache[*regexp.Regexp]{compile: func(p string) (*regexp.Regexp, error) {
		return compileRegexp(e.Args[1], p)
	}}
	if p, ok := constText(args[1]); ok {
		if _, err := lately.get(p); err != nil {
			return nil, err
		}
	}
	return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
		re, err := lately.get(text(args[1], i))
		if err != nil {
			return err
		}
		group := int64(0)
		if len(args) > 2 {
			group = args[2].Int[i]
		}
		s := text(args[0], i)
		m := re.FindStringSubmatchIndex(s)
		if group < 0 || group >= int64(len(m)/2) || m[2*group] < 0 {
			o.setNull(i)
			return nil
		}
		o.setText(i, s[m[2*group]:m[2*group+1]])
		return nil
	}), nil
}
