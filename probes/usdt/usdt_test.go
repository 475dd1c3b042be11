package usdt

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"endoscope/probes/dwarf/op"
	"endoscope/probes/testenv"
)

func TestParseOperands(t *testing.T) {
	const none = op.NoRegister
	for text, want := range map[string]Operand{
		"-4@%edi":                 {Size: 4, Signed: true, Base: 5, Index: none, Scale: 1},
		"%r11d":                   {Size: 4, Base: 11, Index: none, Scale: 1},
		"%dx":                     {Size: 2, Base: 1, Index: none, Scale: 1},
		"8@%r11":                  {Size: 8, Base: 11, Index: none, Scale: 1},
		"1@%r9b":                  {Size: 1, Base: 9, Index: none, Scale: 1},
		"-2@%bx":                  {Size: 2, Signed: true, Base: 3, Index: none, Scale: 1},
		"1@%sil":                  {Size: 1, Base: 4, Index: none, Scale: 1},
		"8@-16(%rbp)":             {Size: 8, Memory: true, Base: 6, Index: none, Scale: 1, Value: -16},
		"-1@(%rax)":               {Size: 1, Signed: true, Memory: true, Base: 0, Index: none, Scale: 1},
		"8@8(%rax,%rbx,4)":        {Size: 8, Memory: true, Base: 0, Index: 3, Scale: 4, Value: 8},
		"8@(,%rdx,8)":             {Size: 8, Memory: true, Base: none, Index: 1, Scale: 8},
		"8@8+32-4(%rsp)":          {Size: 8, Memory: true, Base: 7, Index: none, Scale: 1, Value: 36},
		"4@$5":                    {Size: 4, Base: none, Index: none, Scale: 1, Value: 5},
		"-8@$-9":                  {Size: 8, Signed: true, Base: none, Index: none, Scale: 1, Value: -9},
		"8@$18446744073709551615": {Size: 8, Base: none, Index: none, Scale: 1, Value: -1},
		"8f@-8(%rbp)":             {Size: 8, Float: true, Memory: true, Base: 6, Index: none, Scale: 1, Value: -8},
		"4@counter(%rip)":         {Size: 4, Memory: true, Base: none, Index: none, Scale: 1, Variable: "counter"},
		"-4@a.b_2+8(,%rdx,4)":     {Size: 4, Signed: true, Memory: true, Base: none, Index: 1, Scale: 4, Value: 8, Variable: "a.b_2"},
		"8@$8+table-4":            {Size: 8, Base: none, Index: none, Scale: 1, Value: 4, Variable: "table"},
		"%rdi":                    {Size: 8, Base: 5, Index: none, Scale: 1},
	} {
		got := parseOperands(text)
		if len(got) != 1 || got[0].Refused != nil {
			t.Errorf("%s: %+v", text, got)
			continue
		}
		if diff := cmp.Diff(want, got[0], cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"8f@%xmm0":        "is in a floating-point register",
		"2f@%rax":         "has 2 bytes",
		"4@%xmm0":         "is in a floating-point register",
		"4@8(%rip)":       "is relative to the code",
		"3@%eax":          "has 3 bytes",
		"4@%ah":           "is of no known form",
		"4@(%rax,%rbx,3)": "is of no known form",
		"4@(%rax":         "is of no known form",
		"@":               "is of no known form",
	} {
		got := parseOperands(text)
		if len(got) != 1 || got[0].Refused == nil || !strings.Contains(got[0].Refused.Error(), want) {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
}

// All probes of PostgreSQL as built by Debian can be probed.
func TestProbesOfPostgres(t *testing.T) {
	// The command is often a link, or a script, beside the program.
	initdb, err := filepath.EvalSymlinks(testenv.NeedProgram(t, "initdb"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(filepath.Dir(initdb), "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := Probes(f)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, p := range list {
		if p.Provider != "postgresql" || p.Refused != nil || p.Semaphore == 0 {
			t.Errorf("%s: %+v", p, p)
		}
		names[p.Name] = len(p.Args)
	}
	notes, err := exec.Command(testenv.NeedProgram(t, "readelf"), "-n", f.Name()).Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(notes), "NT_STAPSDT"); n != len(list) {
		t.Errorf("%d probes, by readelf there are %d", len(list), n)
	}
	if len(names) < 50 || names["query__start"] != 1 || names["transaction__commit"] != 1 || names["buffer__read__done"] < 6 {
		t.Errorf("%d names of %d probes: %v", len(names), len(list), names)
	}
}

func FuzzParseOperands(f *testing.F) {
	f.Add("-4@%edi 8@-16(%rbp) 4@$5 8@8(%rax,%rbx,4)")
	f.Fuzz(func(t *testing.T, text string) {
		for _, o := range parseOperands(text) {
			if o.Refused == nil && (o.Size != 1 && o.Size != 2 && o.Size != 4 && o.Size != 8 || o.Base > 15 || o.Index > 15) {
				t.Errorf("%q: %+v", text, o)
			}
		}
	})
}
