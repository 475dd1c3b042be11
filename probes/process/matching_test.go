package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func TestFoldersOfPatterns(t *testing.T) {
	exe := &plan.Col{Name: "exe", T: types.Varchar}
	text := func(s string) *plan.Const { return &plan.Const{V: types.Str(s)} }
	call := func(fn string, args ...plan.Expr) plan.Expr { return &plan.Call{Fn: fn, Args: args} }
	for _, c := range []struct {
		cond plan.Expr
		want []string
	}{
		{call("like", exe, text("/opt/app/%")), []string{"/opt/app/"}},
		{call("like", exe, text("/opt/app/b_n")), []string{"/opt/app/"}},
		{call("like", exe, text("/opt/../usr//bin/%")), []string{"/usr/bin/"}},
		{call("like", exe, text(`/opt/a\_b/c%`)), []string{"/opt/"}},
		{call("like", exe, text("/o%")), nil},
		{call("like", exe, text("%/bin/x")), nil},
		{call("like", exe, text("relative/%")), nil},
		{call("like", exe, text("/proc/%")), nil},
		{call("like", exe, text("//proc/%")), nil},
		{call("like", exe, text("/usr/../sys/%")), nil},
		{call("like", exe, text("/./%")), nil},
		{call("like", exe, text("//%")), nil},
		{call("~", exe, text("^/opt/app/")), nil},
		{call("ilike", exe, text("/opt/app/%")), nil},
		{call("starts_with", exe, text("/opt/app")), []string{"/opt/"}},
		{call("or", call("like", exe, text("/opt/app/x%")), call("like", exe, text("/opt/%"))), []string{"/opt/"}},
		{call("or", call("=", exe, text("/opt/a")), call("like", exe, text("/usr/bin/%"))), []string{"/opt/", "/usr/bin/"}},
		{&plan.In{X: exe, List: []plan.Const{*text("/a/b"), *text("/a/c/d")}}, []string{"/a/"}},
	} {
		if diff := cmp.Diff(c.want, foldersOf(c.cond)); diff != "" {
			t.Errorf("%s: %s", c.cond, diff)
		}
	}
}

// Folders count as files do: a tree of folders alone is not searched without end.
func TestFoldersCount(t *testing.T) {
	defer func(n int) { maxEntries = n }(maxEntries)
	maxEntries = 10
	dir := t.TempDir()
	for i := range maxEntries + 1 {
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	of := plan.Target{By: "exe", Matching: &plan.Call{Fn: "like", Args: []plan.Expr{&plan.Col{T: types.Varchar}, &plan.Const{V: types.Str(dir + "/%")}}}}
	if _, err := Matching(of, func(string) (bool, error) { return false, nil }); err == nil || !strings.Contains(err.Error(), "more than 10 files") {
		t.Error(err)
	}
}

// A condition is refused, at its place, if too many files satisfy it or none does.
func TestMatchingRefused(t *testing.T) {
	of := plan.Target{By: "exe", Start: 3, Stop: 7, Matching: &plan.Call{Fn: "like", Args: []plan.Expr{
		&plan.Col{Name: "exe", T: types.Varchar}, &plan.Const{V: types.Str(t.TempDir() + "/%")}}}}
	_, err := Matching(of, func(string) (bool, error) { return false, nil })
	if e, ok := err.(*plan.Error); !ok || e.Start != 3 || e.Stop != 7 || e.Hint == "" {
		t.Errorf("%+v", err)
	}
	found := map[string]bool{}
	for i := range maxMatches + 1 {
		found[string(rune('a'+i))] = true
	}
	if _, err := matchesOf(of, found, "none", "hint"); err == nil || err.(*plan.Error).Hint == "" {
		t.Errorf("%+v", err)
	}
}
