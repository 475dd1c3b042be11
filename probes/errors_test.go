package probes

import (
	"errors"
	"testing"

	"endoscope/planner/plan"
)

func TestErrorGetsThePositionOfItsStream(t *testing.T) {
	spec := &plan.Acquire{Start: 14, Stop: 26}
	bare := plan.Errorf(-1, -1, "no such process").WithHint("start it")
	located, ok := errors.AsType[*plan.Error](AtStream(bare, spec))
	if !ok || located.Start != 14 || located.Stop != 26 || located.Msg != bare.Msg || located.Hint != bare.Hint {
		t.Errorf("error without a position: %+v", located)
	}
	if bare.Start != -1 || bare.Stop != -1 {
		t.Errorf("the error passed in has changed: %+v", bare)
	}
	for _, err := range []error{plan.Errorf(3, 7, "no such column"), errors.New("EOF"), nil} {
		if got := AtStream(err, spec); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
