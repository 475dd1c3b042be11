package expr

import (
	"endoscope/operators/batch"
	"endoscope/operators/encoders"
	"endoscope/planner/plan"
)

// form returns the builder of a function that converts an ENCODING to another form. convert
// returns false if the encoding does not have that form; the error then says that the
// encoding is not a what.
func form(convert func(encoders.Encoding) (string, bool, error), what string) builder {
	return func(e *plan.Call, args []node) (node, error) {
		return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
			x, ok := args[0].Any[i].(encoders.Encoding)
			if !ok {
				o.setNull(i)
				return nil
			}
			text, ok, err := convert(x)
			if err != nil {
				return err
			}
			if !ok {
				return plan.Errorf(-1, -1, "%s: this encoding is not %s", e, what).WithHint("text() and json() show every encoding")
			}
			o.setText(i, text)
			return nil
		}), nil
	}
}

func encodingText(x encoders.Encoding) (string, bool, error) { return x.String(), true, nil }

func encodingJSON(x encoders.Encoding) (string, bool, error) {
	b, err := x.MarshalJSON()
	return string(b), true, err
}

func encodingDot(x encoders.Encoding) (string, bool, error) {
	g, ok := x.(encoders.Graph)
	if !ok {
		return "", false, nil
	}
	return g.Dot(), true, nil
}

func encodingMermaid(x encoders.Encoding) (string, bool, error) {
	g, ok := x.(encoders.Graph)
	if !ok {
		return "", false, nil
	}
	return g.Mermaid(), true, nil
}

func encodingSVG(x encoders.Encoding) (string, bool, error) {
	d, ok := x.(encoders.Drawing)
	if !ok {
		return "", false, nil
	}
	return d.SVG(), true, nil
}

// encodingXML and encodingFolded are forms of tries of stacks (package handlers).
func encodingXML(x encoders.Encoding) (string, bool, error) {
	t, ok := x.(interface{ XML() (string, error) })
	if !ok {
		return "", false, nil
	}
	text, err := t.XML()
	return text, true, err
}

func encodingFolded(x encoders.Encoding) (string, bool, error) {
	t, ok := x.(interface{ Folded() string })
	if !ok {
		return "", false, nil
	}
	return t.Folded(), true, nil
}
