package resolve

import (
	"bytes"
	"slices"
	"testing"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

func TestRestoreOfProbedCode(t *testing.T) {
	nopEntry := append(slices.Clone(nop5), 0x55, 0xc3)
	push := []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5}
	patch := func(b []byte, at int, with ...byte) []byte {
		b = slices.Clone(b)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name      string
		want, got []byte
		at        int
		same      bool
	}{
		{"untouched", push, push, 4, true},
		{"breakpoint at the site", push, patch(push, 4, breakpoint), 4, true},
		{"breakpoint at the entry, of another tool", push, patch(push, 0, breakpoint), 4, true},
		{"breakpoint elsewhere: a debugger's, or data", push, patch(push, 6, breakpoint), 4, false},
		{"nop replaced by a call", nopEntry, patch(nopEntry, 0, callInsn, 1, 2, 3, 4), 0, true},
		{"a call where there was no nop", push, patch(push, 0, callInsn, 1, 2, 3, 4), 0, false},
		{"patched to jump away", push, patch(push, 0, 0xe9, 1, 2, 3, 4), 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slices.Clone(c.got)
			restore(got, c.want, 0)
			restore(got, c.want, c.at)
			if same := bytes.Equal(got, c.want); same != c.same {
				t.Errorf("same: %v, want %v", same, c.same)
			}
		})
	}
}
