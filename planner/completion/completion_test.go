package completion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// asked is a session that answers with what it was asked for.
type asked struct{}

func (asked) Complete(_ context.Context, kind, of, prefix string) []string {
	return []string{fmt.Sprintf("%s(%s)%s", kind, of, prefix)}
}

func TestPlaceDecidesWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct{ text, word, want string }{ // | is the cursor
		{"SELECT * FROM fun|", "fun", "stream()fun"},
		{"SELECT d.dur| FROM function_duration d", "dur", "column(function_duration)dur"},
		{"SELECT COUNT(*) FROM function_start WHERE function_name = 'ca|", "ca", "function()ca"},
		{"DROP TRIGGER s|", "s", "trigger()s"},
		{"DROP CONTEXT r|", "r", "context()r"},
		{"DROP CONTEXT r|", "r", "context()r"},
		{"SET over|", "over", "setting()over"},
		{"SHOW HO|", "HO", "HOSTS"},
		{"SELECT hos| FROM function_start", "hos", "column(function_start)hos"},
		{"SELECT 1; USE 'red|", "red", "process()red"},
		{"-- FROM x|", "", ""},
	} {
		before, after, _ := strings.Cut(c.text, "|")
		word, found := At(t.Context(), asked{}, before+after, len(before))
		if slices.Contains(found, Candidate{"hosts", "keyword"}) {
			t.Errorf("%s: a word of SHOW is offered in an expression", c.text)
		}
		first := ""
		if len(found) > 0 && c.want != "" {
			first = found[0].Text
		}
		if word != c.word || first != c.want {
			t.Errorf("%s: %q, %v; want %q, %s", c.text, word, found, c.word, c.want)
		}
	}
}
