package plan

import "strings"

// Lineage holds the base classes of a class, in the format of the columns class_lineage and
// receiver_lineage, which HIERARCHY_CONSECUTIVE reads:
//
//	Circle < Round < Shape
//	Label < Widget < Object; Label < Named
//
// Chains go from derived class to base; each step occurs once.
type Lineage struct{ steps [][2]string }

// Suffixes by which the lineage column of a column of classes is found: class_lineage for
// class.
const (
	LineageSuffix    = "_lineage"
	HierarchyEncoder = "hierarchy_consecutive"
)

const (
	derives = " < "
	chains  = "; "
)

// Add records that a class derives from base directly.
func (l *Lineage) Add(class, base string) { l.steps = append(l.steps, [2]string{class, base}) }

// String returns the text form. A class without steps derives from nothing.
func (l *Lineage) String(class string) string {
	if len(l.steps) == 0 {
		return class
	}
	var b strings.Builder
	for i, s := range l.steps {
		switch {
		case i > 0 && l.steps[i-1][1] == s[0]:
			b.WriteString(derives + s[1])
			continue
		case i > 0:
			b.WriteString(chains)
		}
		b.WriteString(s[0] + derives + s[1])
	}
	return b.String()
}

// ParseLineage returns the steps, from class to base, of a lineage.
func ParseLineage(text string) (steps [][2]string) {
	for chain := range strings.SplitSeq(text, chains) {
		names := strings.Split(chain, derives)
		for i := 1; i < len(names); i++ {
			steps = append(steps, [2]string{strings.TrimSpace(names[i-1]), strings.TrimSpace(names[i])})
		}
	}
	return steps
}
