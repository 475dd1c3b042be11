package variable

import (
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// A virtual base, or something behind a reference, is refused for that reason;
// a field that a class neither has nor inherits is refused as unknown.
func TestWhatBasesCannotTell(t *testing.T) {
	testenv.NeedWatchpoints(t)
	r := run(t, testenv.CompileC(t, "testdata/bases.cc", "-O0", "-g"))
	for name, want := range map[string]string{
		"circle.radius": "", "shown->id": "",
		"away.letters": "letters is a field of Named, a virtual base class, which lies elsewhere in each class of objects",
		"alias":        "a reference: ask for what it refers to",
		"circle.nope":  "Circle has no field nope (it has id2)",
	} {
		s, err := New().Prepare(t.Context(), asked(r.pid, 0, name))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
		if err == nil {
			s.Stop()
		}
	}
}
