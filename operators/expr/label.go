package expr

import (
	"encoding/json"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// maxLabelSets bounds the texts of labels that label keeps in parsed form.
const maxLabelSets = 1024

// label looks up a name in an object of texts. The rows of a container have the same object, so
// each is parsed once.
func label(e *plan.Call, args []node) (node, error) {
	parsed := map[string]map[string]string{}
	return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
		s := text(args[0], i)
		labels, ok := parsed[s]
		if !ok {
			_ = json.Unmarshal([]byte(s), &labels) // another text has no labels
			if len(parsed) == maxLabelSets {
				clear(parsed)
			}
			parsed[s] = labels
		}
		if v, ok := labels[text(args[1], i)]; ok {
			o.setText(i, v)
		} else {
			o.setNull(i)
		}
		return nil
	}), nil
}
