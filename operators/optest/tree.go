package optest

import (
	"strings"

	"endoscope/planner/plan"
)

// Tree returns a plan as text, one operator per line, inputs indented below it. A shared
// sub-plan is printed once and then referred to by number.
func Tree(n plan.Node) string {
	uses := map[plan.Node]int{}
	var count func(plan.Node)
	count = func(n plan.Node) {
		uses[n]++
		if uses[n] == 1 {
			for _, in := range n.Inputs() {
				count(in)
			}
		}
	}
	count(n)
	var b strings.Builder
	printed := map[plan.Node]string{}
	var walk func(plan.Node, string)
	walk = func(n plan.Node, indent string) {
		b.WriteString(indent)
		if name, ok := printed[n]; ok {
			b.WriteString("shared " + name + "\n")
			return
		}
		if uses[n] > 1 {
			printed[n] = "#" + string(rune('1'+len(printed)))
			b.WriteString(printed[n] + " ")
		}
		b.WriteString(n.Describe() + "\n")
		for _, in := range n.Inputs() {
			walk(in, indent+"  ")
		}
	}
	walk(n, "")
	return b.String()
}
