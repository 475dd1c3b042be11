package seeds

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDrawn is what TestSameInEveryRun runs: it prints what is drawn.
func TestDrawn(t *testing.T) {
	for range 2 {
		Check(t, 2, func(r *rapid.T) { t.Log("drew", rapid.Uint64().Draw(r, "n")) })
	}
}

// The cases are the same in every run, others each time that a test asks for
// more, and random ones where that is said.
func TestSameInEveryRun(t *testing.T) {
	run := func(seed string, args ...string) []string {
		t.Helper()
		cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestDrawn$", "-test.v", "-rapid.checks=3"}, args...)...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, variable+"=") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		if seed != "" {
			cmd.Env = append(cmd.Env, variable+"="+seed)
		}
		out, err := cmd.CombinedOutput()
		drawn := regexp.MustCompile(`drew \d+`).FindAllString(string(out), -1)
		if err != nil || len(drawn) != 12 {
			t.Fatalf("%v\n%s", err, out)
		}
		return drawn
	}
	text := func(s []string) string { return strings.Join(s, " ") }
	first := run("")
	if again := run(""); text(first) != text(again) {
		t.Errorf("drawn: %v, then %v", first, again)
	}
	if text(first[:3]) == text(first[3:6]) || text(first[:6]) != text(first[6:]) {
		t.Errorf("two times the cases, twice: %v", first)
	}
	if named := run("1"); text(named) != text(first) {
		t.Errorf("drawn with the seed named: %v, want %v", named, first)
	}
	for _, random := range [][]string{run("0"), run("", "-rapid.seed=0")} {
		if text(random) == text(first) || text(random[:6]) == text(random[6:]) {
			t.Errorf("drawn with random seeds: %v", random)
		}
	}
}
