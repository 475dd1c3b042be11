package resolve

import (
	"strings"
	"testing"
)

// A reason for skipping functions is printed once, however many functions it concerns.
func TestNoticeOfManySkipped(t *testing.T) {
	var list []Skipped
	for _, name := range []string{"a1", "a2", "a3", "a4", "a5"} {
		list = append(list, Skipped{name, "begins with `lock inc dword ptr [" + name + "]`, which has a lock prefix (f0) that the kernel refuses to probe"})
	}
	list = append(list, Skipped{"strlen", "is an indirect function; probe a variant: __strlen_avx2"},
		Skipped{"memcpy", "is an indirect function; probe a variant: __memcpy_avx2"},
		Skipped{"alone", "jumps into the middle of an instruction at +17"})
	for _, c := range []struct {
		list []Skipped
		want string
	}{
		{list[:1], "1 function is not monitored: a1 (begins with `lock inc dword ptr [a1]`, which has a lock prefix (f0) that the kernel refuses to probe)"},
		{list[5:6], "1 function is not monitored: strlen (is an indirect function; probe a variant: __strlen_avx2)"},
		{list, "8 functions are not monitored: a1, a2, a3 and 2 more (begins with ..., which has a lock prefix (f0) that the kernel refuses to probe); " +
			"strlen, memcpy (is an indirect function); alone (jumps into the middle of an instruction at +17)"},
	} {
		if got := NotMonitored(c.list); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
	var many []Skipped
	for r := range 20 {
		many = append(many, Skipped{"f" + string(rune('a'+r)), "reason " + string(rune('a'+r))})
	}
	if got := NotMonitored(many); !strings.HasSuffix(got, "ff (reason f); and 14 more for other reasons") {
		t.Error(got)
	}
}
