package planner

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// findPrograms replaces conditions that choose programs by those that satisfy them
// (Env.Programs).
func (r *resolver) findPrograms(root plan.Node) (plan.Node, error) {
	if r.env.Programs == nil {
		return root, nil
	}
	var first error
	root = plan.TransformNodes(root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok || first != nil || a.Target.Matching == nil && len(a.Target.Files) == 0 {
			return n
		}
		c := *a
		if c.Target, first = r.env.Programs(a.Target); first != nil {
			first = r.placed(first)
			return n
		}
		if m := a.Target.Matching; m != nil {
			r.notice("%s: %s", m, someOf(slices.Concat(c.Target.Exes, c.Target.Files)))
		}
		if len(c.Target.Files) > 0 {
			c.Select = plan.And(c.Select, namesOf(c.Target.Files))
		}
		return &c
	})
	return root, first
}

// namesOf returns the condition that module is one of these files. Modules are called by
// their files, without folders.
func namesOf(files []string) plan.Expr {
	in := &plan.In{X: &plan.Col{Index: plan.SelectModule, Name: plan.SelectColumns[plan.SelectModule], T: types.Varchar}}
	for _, f := range files {
		name := filepath.Base(f)
		if !slices.ContainsFunc(in.List, func(c plan.Const) bool { return c.V.S == name }) {
			in.List = append(in.List, plan.Const{V: types.Str(name)})
		}
	}
	return in
}

// someOf names the first few of a list.
func someOf(list []string) string {
	const most = 8
	if n := len(list) - most; n > 1 {
		return strings.Join(list[:most], ", ") + " and " + strconv.Itoa(n) + " more"
	}
	return strings.Join(list, ", ")
}

// targetOfPattern returns the hint for a stream without a target whose conditions on programs
// or modules choose none; "" if it has no such conditions.
func targetOfPattern(leaf *plan.Acquire) string {
	if leaf.Filter != nil {
		for _, c := range conditionsOn(leaf.Filter, targetColumns) {
			return fmt.Sprintf("%s chooses no programs: =, IN, LIKE, ILIKE, ~ and starts_with do, and OR of these on one column; add WHERE process = 'name', exe = '/path' or exe LIKE '/opt/%%'", c)
		}
	}
	if s := streamOf(leaf); s == nil || !s.Functions || leaf.Select == nil {
		return ""
	}
	for _, c := range conditionsOn(leaf.Select, []string{"module"}) {
		return fmt.Sprintf("%s chooses no files of the machine: module = 'libz.so.1', module = '/path' and module LIKE '/folder/%%' do, for function_start, function_end and function_duration; or add WHERE process = 'name'", c)
	}
	return ""
}
