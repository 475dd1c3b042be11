package elf

import (
	"slices"
	"strings"
	"testing"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/probes/testenv"
)

func TestNearest(t *testing.T) {
	path := testenv.CompileText(t, ".S", `
	.text
	.irp name, processCommand, processCommands, call, addReply, addReplyError, lookupKeyRead, lookupKeyWrite, dictFind, dictAdd, _ZN4shop4Cart3addEi, _ZN4shop4Cart6removeEi
	.globl \name
	.type \name, @function
\name: ret
	.size \name, .-\name
	.endr
`, "-shared", "-nostdlib")
	m := openModule(t, path)
	for _, test := range []struct {
		name string
		n    int
		want string
	}{
		{"processComand", 1, "processCommand"},
		{"processcommand", 2, "processCommand processCommands"},
		{"porcessCommand", 1, "processCommand"},
		{"addRep", 2, "addReply addReplyError"},
		{"KeyRead", 1, "lookupKeyRead"},
		{"lookupKey", 5, "lookupKeyRead lookupKeyWrite"},
		{"dictfnd", 1, "dictFind"},
		{"Cart::add", 1, "shop::Cart::add"},
		{"remove", 3, "shop::Cart::remove"},
		{"rmove", 3, "shop::Cart::remove"},
		{"shop::Cart::ad", 1, "shop::Cart::add"},
		{"somethingElseAltogether", 3, ""},
		{"", 3, ""},
		{"call", 0, ""},
		{strings.Repeat("x", 1000), 3, ""},
	} {
		if got := strings.Join(m.Nearest(test.name, test.n), " "); got != test.want {
			t.Errorf("Nearest(%q, %d) = %q, want %q", test.name, test.n, got, test.want)
		}
	}
}

// Any name with one letter changed must be found in a large program.
func TestNearestFindsMisspelledNames(t *testing.T) {
	m := openModule(t, testenv.NeedProgram(t, "redis-server"))
	checked := 0
	for i := 0; i < m.Len(); i += 97 {
		f := m.Function(i)
		if f.Synthetic || len(f.Name) < 8 {
			continue
		}
		checked++
		wrong := f.Name[:3] + "#" + f.Name[4:]
		if got := m.Nearest(wrong, 5); !slices.Contains(got, f.Name) {
			t.Errorf("Nearest(%q) = %q, not %q", wrong, got, f.Name)
		}
	}
	if checked < 10 {
		t.Errorf("only %d names checked", checked)
	}
}
