package elf

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/probes/unwind"
)

// readelf interprets the unwind table independently. At every row our rule must
// have the same CFA and saved registers.
func TestRulesAgreeWithReadelf(t *testing.T) {
	for _, name := range []string{"redis-server", "ls", "as", "libc.so.6"} {
		t.Run(name, func(t *testing.T) {
			path := "/lib/x86_64-linux-gnu/" + name
			if !strings.HasPrefix(name, "lib") {
				path = testenv.NeedProgram(t, name)
			}
			m := openModule(t, path)
			rows, expressions := 0, 0
			var start uint64
			var header []string
			text, _ := exec.Command("readelf", "-wF", path).Output() // it fails where it has warned
			for line := range strings.Lines(string(text)) {
				f := strings.Fields(line)
				switch {
				case strings.Contains(line, " FDE ") && strings.Contains(line, "pc="):
					_, pc, _ := strings.Cut(line, "pc=")
					pc, _, _ = strings.Cut(pc, "..")
					start, _ = strconv.ParseUint(pc, 16, 64)
				case strings.Contains(line, " CIE "), strings.Contains(line, "ZERO terminator"):
					start = 0
				case len(f) > 1 && f[0] == "LOC":
					header = f
				case start != 0 && len(f) == len(header) && len(f) > 2:
					pc, err := strconv.ParseUint(f[0], 16, 64)
					if err != nil {
						continue
					}
					rule, ok := m.UnwindRule(pc)
					if got, want := describeRule(rule, header), f[1:]; !ok || strings.Join(got, " ") != strings.Join(want, " ") {
						t.Fatalf("row at %#x is %v (%v), readelf says %v of %v", pc, got, ok, want, header[1:])
					}
					rows++
					if f[1] == "exp" {
						expressions++
					}
				}
			}
			if rows < 100 || expressions == 0 {
				t.Errorf("%d rows compared, %d with an expression", rows, expressions)
			}
			t.Logf("%d rows compared, %d with an expression", rows, expressions)
		})
	}
}

// describeRule formats a rule as a row of readelf, in the columns of header.
func describeRule(r unwind.Rule, header []string) []string {
	names := []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ra"}
	saved := map[string]string{}
	for _, s := range r.Saved {
		switch s.How {
		case unwind.AtOffset:
			saved[names[s.Reg]] = fmt.Sprintf("c%+d", s.Offset)
		case unwind.IsOffset:
			saved[names[s.Reg]] = fmt.Sprintf("v%+d", s.Offset)
		case unwind.AtExpression:
			saved[names[s.Reg]] = "exp"
		case unwind.IsExpression:
			saved[names[s.Reg]] = "vexp"
		case unwind.InRegister:
			saved[names[s.Reg]] = names[s.Offset]
		}
	}
	cfa := fmt.Sprintf("%s%+d", names[r.CFAReg], r.CFAOffset)
	if r.CFAExpr != nil {
		cfa = "exp"
	}
	out := []string{cfa}
	for _, column := range header[2:] {
		switch {
		case saved[column] != "":
			out = append(out, saved[column])
		default:
			out = append(out, "u")
		}
	}
	return out
}
