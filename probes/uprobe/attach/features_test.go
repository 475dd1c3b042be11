package attach

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestMissingRights(t *testing.T) {
	for _, c := range []struct {
		caps []uint
		want string
	}{
		{nil, "CAP_BPF and CAP_PERFMON"},
		{[]uint{unix.CAP_BPF}, "CAP_PERFMON"},
		{[]uint{unix.CAP_PERFMON, unix.CAP_NET_ADMIN}, "CAP_BPF"},
		{[]uint{unix.CAP_BPF, unix.CAP_PERFMON}, ""},
		{[]uint{unix.CAP_SYS_ADMIN}, ""},
	} {
		var set uint64
		for _, b := range c.caps {
			set |= 1 << b
		}
		if got := missingRights(set); got != c.want {
			t.Errorf("with %v: missing %q, want %q", c.caps, got, c.want)
		}
	}
}
