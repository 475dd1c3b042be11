package server_test

import (
	"errors"
	"strings"
	"testing"

	"endoscope/parser"
	"endoscope/server/wire"
)

// A function that is not known is told with those that may have been meant.
func TestDescribeUnknownFunction(t *testing.T) {
	s := newSession(t, wire.Options{})
	for name, want := range map[string]string{"quantil": "did you mean quantile", "nothing_like_it": "for a function of a program, run USE"} {
		_, err := s.Execute(t.Context(), "DESCRIBE FUNCTION "+name)
		var e *parser.Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Hint, want) {
			t.Errorf("%s: %v, %+v", name, err, e)
		}
	}
}
