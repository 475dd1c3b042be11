package calibrate

import (
	"bytes"
	stdelf "debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"endoscope/probes/codesite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program matches its description: functions of two instructions to which
// package codesite assigns their methods.
func TestProgram(t *testing.T) {
	p := assemble(3)
	f, err := stdelf.NewFile(bytes.NewReader(p.elf))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Progs) != 1 || f.Progs[0].Flags != stdelf.PF_R|stdelf.PF_X || f.Progs[0].Filesz != uint64(len(p.elf)) {
		t.Errorf("segments %+v", f.Progs)
	}
	if entry := f.Entry - baseAddress; entry < codeOffset || entry >= uint64(len(p.elf)) {
		t.Errorf("starts at %#x", f.Entry)
	}
	if len(p.functions) != 3*len(Methods) {
		t.Fatalf("%d functions, want %d", len(p.functions), 3*len(Methods))
	}
	for i, f := range p.functions {
		b := bodies[i%len(bodies)]
		if f.Method != Methods[i%len(Methods)] {
			t.Errorf("function %d is %s, want %s", i, f.Method, Methods[i%len(Methods)])
		}
		for _, at := range []uint64{f.Entry, f.Exit} {
			if !bytes.HasPrefix(p.elf[at:], b.probed) {
				t.Errorf("function %d at %#x is % x, want % x", i, at, p.elf[at:at+8], b.probed)
			}
			if at/functionsAt != (at+uint64(len(b.probed))-1)/functionsAt {
				t.Errorf("function %d: the instruction at %#x crosses a line", i, at)
			}
		}
	}
}

// Without a byte the program ends and writes nothing; with one it writes
// everything.
func TestProgramRuns(t *testing.T) {
	p := assemble(2)
	file, err := inMemory(p.elf)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, in := range []string{"", "x"} {
		cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if in == "" {
			if len(out) != 0 {
				t.Errorf("%d bytes without being asked", len(out))
			}
			continue
		}
		times, err := p.times(out)
		if err != nil || len(times) != len(p.functions) || len(times[0]) != rounds {
			t.Fatalf("%d times, %v", len(times), err)
		}
	}
	if _, err := p.times([]byte("short")); err == nil {
		t.Error("times of a few bytes")
	}
}

// Prices are differences of medians: a disturbed round has no effect, nor has
// the loop itself.
func TestPricesIgnoreDisturbedRounds(t *testing.T) {
	loop := func(ns float64) []float64 {
		v := slices.Repeat([]float64{ns}, rounds)
		v[0], v[7] = 1e9, 1e9 // interrupted
		return v
	}
	calls := func(i int) float64 { return float64(bodies[i].calls) }
	times := [][]float64{
		loop(100), loop(200), loop(300),
		loop(100 + 10*calls(0)), loop(200 + 20*calls(1)), loop(300 + 30*calls(2)),
	}
	got := prices(times, []Observation{{Kind: "k"}})
	for i, m := range Methods {
		if want := float64(10 * (i + 1)); got["k"][m] != want {
			t.Errorf("%s: %v, want %v", m, got["k"][m], want)
		}
	}
}

// children lists the child processes of this one that have not been waited for.
func children(t *testing.T) string {
	t.Helper()
	var all []string
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		all = append(all, strings.Fields(string(b))...)
	}
	return strings.Join(all, " ")
}

// However Measure ends, every attached observation is detached, after the
// program has ended.
func TestNothingIsLeft(t *testing.T) {
	var log []string
	attaches := func(kind string, err error) Observation {
		return Observation{Kind: kind, Attach: func(file *os.File, fs []Function) (func(), error) {
			if info, e := file.Stat(); e != nil || !info.Mode().IsRegular() || len(fs) != len(Methods) || children(t) == "" {
				t.Errorf("attached to %v, %v: %+v; children %q", info, e, fs, children(t))
			}
			log = append(log, "attach "+kind)
			return func() { log = append(log, "detach "+kind+children(t)) }, err
		}}
	}
	broken := errors.New("broken")
	_, err := Measure([]Observation{attaches("a", nil), attaches("b", nil), attaches("c", broken)})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "c: ") {
		t.Errorf("measured in spite of %v: %v", broken, err)
	}
	if want := "attach a, attach b, attach c, detach a, detach b"; strings.Join(log, ", ") != want {
		t.Errorf("%v, want %s", log, want)
	}
	if c := children(t); c != "" {
		t.Errorf("children %s are left", c)
	}
}

func TestComplete(t *testing.T) {
	full := func(ns float64) map[string]float64 {
		return map[string]float64{codesite.Emulated: 500, codesite.Nop: ns, codesite.Stepped: 18_000}
	}
	for _, c := range []struct {
		ns   float64
		want bool
	}{{200, true}, {0, false}, {-1, false}, {2e6, false}} {
		if got := (Table{"a": full(100), "b": full(c.ns)}).complete([]string{"a", "b"}); got != c.want {
			t.Errorf("with a price of %v: %v", c.ns, got)
		}
	}
	if (Table{"a": full(100)}).complete([]string{"a", "b"}) || (Table)(nil).complete([]string{"a"}) {
		t.Error("a kind is missing")
	}
}
