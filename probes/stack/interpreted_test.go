package stack

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"
)

// scriptCall is a frame of a script, as a row has it.
type scriptCall struct {
	function, module string
	line             int64
}

// script starts a script of testdata/interpreted that prints a line when it is ready.
func script(t *testing.T, interpreter, name string) *target {
	t.Helper()
	r := run(t, testenv.NeedProgram(t, interpreter), filepath.Join("testdata/interpreted", name))
	r.number(t)
	return r
}

// sampled returns the rows of a stream of stacks with lines while work is done.
func sampled(t *testing.T, pid int, every time.Duration, work func()) [][]types.Value {
	t.Helper()
	spec := specification(plan.Target{PIDs: []int{pid}}, every)
	spec.Lines = true
	s, err := provider.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if notices := s.Info().Notices; len(notices) > 0 {
		t.Errorf("notices %q", notices)
	}
	got := newRecord()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	work()
	s.Stop()
	<-got.ended
	return got.rows
}

// callsOf returns the frames of a row that are of files with a suffix, outermost first, and the
// index of the innermost.
func callsOf(row []types.Value, suffix string) (calls []scriptCall, innermost int) {
	stack := row[colStack].A.([]types.Value)
	for i, f := range slices.Backward(stack) {
		v := f.A.([]types.Value)
		if strings.HasSuffix(v[1].S, suffix) {
			calls, innermost = append(calls, scriptCall{v[0].S, v[1].S, v[4].I}), i
		}
	}
	return calls, innermost
}

// Programs in which c0 calls c1, which calls c2, and so on; only c3 computes a checksum. They
// change their frames some ten million times a second.
const (
	pythonChain = `
import zlib
text = bytes(5000)
def c7(): pass
def c6(): c7()
def c5(): c6()
def c4(): c5()
def c3(): c4(); zlib.crc32(text); c4()
def c2(): c3()
def c1(): c2()
def c0(): c1()
print(1, flush=True)
while True: c0()
`
	rubyChain = `
require "zlib"
$text = "\0" * 5000
def c7() = nil
def c6() = c7()
def c5() = c6()
def c4() = c5()
def c3() = (c4; Zlib.crc32($text); c4)
def c2() = c3()
def c1() = c2()
def c0() = c1()
puts 1
$stdout.flush
c0 while true
`
	phpChain = `<?php
$text = str_repeat("\0", 5000);
function c7() {}
function c6() { c7(); }
function c5() { c6(); }
function c4() { c5(); }
function c3() { c4(); $x = crc32($GLOBALS['text']); c4(); return $x; }
function c2() { c3(); }
function c1() { c2(); }
function c0() { c1(); }
echo "1\n";
while (true) c0();
`
)

// The stack of a running program is that of one instant: each function was called by the one
// below it, and what it calls of a C library is on top of it.
func TestStacksOfOneInstant(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, one := range []struct{ interpreter, name, text, outermost string }{
		{"/usr/bin/python3", "chain.py", pythonChain, "<module>"},
		{"ruby", "chain.rb", rubyChain, "<main>"},
		{"php", "chain.php", phpChain, "{main}"},
	} {
		t.Run(one.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), one.name)
			if err := os.WriteFile(path, []byte(one.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := run(t, testenv.NeedProgram(t, one.interpreter), path)
			r.number(t)
			c := collect(t, r.pid)
			chain := []string{one.outermost, "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"}
			checksums, samples := 0, 0
			testenv.Until(t, "it is sampled", func() bool {
				for _, s := range snapshot(t, c) {
					functions := slices.Clone(s.functions)
					slices.Reverse(functions)
					own := 0
					for own < len(functions) && s.modules[len(functions)-1-own] == one.name {
						own++
					}
					if own == 0 || own > len(chain) || !slices.Equal(functions[:own], chain[:own]) {
						t.Fatalf("its stack is %q", functions)
					}
					samples++
					if slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(f, "crc32") }) {
						if checksums++; functions[own-1] != "c3" {
							t.Fatalf("the checksum is computed by %q", functions)
						}
					}
				}
				return samples > 200 && checksums > 50
			})
			if c.unfinished[noFrames] > 0 {
				t.Errorf("%d stacks could not be read", c.unfinished[noFrames])
			}
		})
	}
}

// rubyThreads is a program with a thread that waits in a queue, two that compute and so hold the
// interpreter's lock in turn, one that waits for the end of another, and one that sleeps.
const rubyThreads = `
def take = Queue.new.pop
def compute
  x = 0
  x += 1 while true
end
def join(t) = t.join
a = Thread.new { take }
2.times { Thread.new { compute } }
Thread.new { join(a) }
def rest = sleep(1000)
puts 1
$stdout.flush
rest
`

// The threads of a Ruby program have each its own stack; one that waits for the interpreter's
// lock is blocked.
func TestRubyThreads(t *testing.T) {
	testenv.NeedUprobes(t)
	path := filepath.Join(t.TempDir(), "threads.rb")
	if err := os.WriteFile(path, []byte(rubyThreads), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, testenv.NeedProgram(t, "ruby"), path)
	r.number(t)
	c := collect(t, r.pid)
	chains := map[string][]string{"take": {"block in <main>", "take"}, "compute": {"block (2 levels) in <main>", "compute"}, "join": {"block in <main>", "join"}, "rest": {"<main>", "rest"}}
	testenv.Once(t, func() error { // a thread may have no processor while it changes from one state to the other
		seenStates := map[string]int{}
		wanted := []string{"take WAIT", "join WAIT", "rest WAIT", "compute RUN", "compute BLOCKED"}
		testenv.Until(t, "all threads are seen in their states", func() bool {
			for _, s := range snapshot(t, c) {
				var own []string
				for i, f := range slices.Backward(s.functions) {
					if s.modules[i] == "threads.rb" {
						own = append(own, f)
					}
				}
				if len(own) < 2 { // it begins
					continue
				}
				name := own[len(own)-1]
				if !slices.Equal(own, chains[name]) {
					t.Fatalf("a stack is %q", s.functions)
				}
				seenStates[name+" "+s.state]++
			}
			return !slices.ContainsFunc(wanted, func(state string) bool { return seenStates[state] < 20 })
		})
		if seenStates["take BLOCKED"] > 0 || seenStates["rest BLOCKED"] > 0 {
			t.Errorf("seen: %v", seenStates)
		}
		// A thread that is about to wait for the lock is not waiting yet.
		if seenStates["compute WAIT"] > seenStates["compute BLOCKED"]/2 {
			return fmt.Errorf("seen: %v", seenStates)
		}
		return nil
	})
}

// A stack of more frames than are read is cut, and counted, whether its thread waits or runs.
func TestDeepStacksOfScripts(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, one := range []struct{ interpreter, name, text string }{
		{"ruby", "deep.rb", "def deep(n, &f) = n > 0 ? deep(n - 1, &f) : f.call\nputs 1\n$stdout.flush\ndeep(700) { gets }\ndeep(700) { x = 0; x += 1 while true }\n"},
		{"php", "deep.php", "<?php\nfunction deep($n, $f) { if ($n > 0) { deep($n - 1, $f); } else { $f(); } }\necho \"1\\n\";\ndeep(700, function () { fgets(STDIN); });\ndeep(700, function () { for ($x = 0; ; $x++); });\n"},
	} {
		t.Run(one.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), one.name)
			if err := os.WriteFile(path, []byte(one.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := run(t, testenv.NeedProgram(t, one.interpreter), path)
			r.number(t)
			c := collect(t, r.pid)
			for _, runs := range []bool{false, true} {
				testenv.Until(t, "it is deep", func() bool {
					s := snapshot(t, c)[r.pid]
					if s.runnable != runs || len(s.functions) < 500 {
						return false
					}
					if s.complete || s.cause != noFrames || c.unfinished[noFrames] == 0 {
						t.Errorf("of %d functions the stack is complete, %v", len(s.functions), s.cause)
					}
					return true
				})
				fmt.Fprintln(r.in)
			}
		})
	}
}

// A library of another interpreter, in a process that does not execute its language, changes
// nothing.
func TestLibraryOfAnotherInterpreter(t *testing.T) {
	testenv.NeedUprobes(t)
	library := testenv.Output(t, "ruby", "-e", `print File.read("/proc/self/maps")[/\S*libruby\S*/]`)
	r := run(t, testenv.NeedProgram(t, "/usr/bin/python3"), "-c", `
import ctypes, sys, time
ctypes.CDLL(sys.argv[1])
def rest(): print(1, flush=True); time.sleep(1000)
rest()`, library)
	r.number(t)
	c := collect(t, r.pid)
	testenv.Until(t, "it rests", func() bool {
		s := snapshot(t, c)[r.pid]
		return s.state == "WAIT" && slices.Contains(s.functions, "rest") && s.complete
	})
}

// Of an interpreter of an unknown version there is a notice, and its stacks are those of the
// machine.
func TestUnknownInterpreter(t *testing.T) {
	testenv.NeedUprobes(t)
	php := filepath.Join(t.TempDir(), "php")
	b, err := os.ReadFile(testenv.NeedProgram(t, "php"))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte("X-Powered-By: PHP/8."), []byte("X-Powered-By: PHP/9."), 1)
	if err := os.WriteFile(php, b, 0o700); err != nil {
		t.Fatal(err)
	}
	r := run(t, php, "-n", "-r", `echo "1\n"; function wait() { sleep(1000); } wait();`)
	r.number(t)
	s, err := provider.Prepare(context.Background(), specification(plan.Target{PIDs: []int{r.pid}}, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if notices := s.Info().Notices; len(notices) != 1 || !strings.Contains(notices[0], "runs PHP, its stacks show only the interpreter: PHP 9.") {
		t.Errorf("notices %q", notices)
	}
	c := collect(t, r.pid)
	testenv.Until(t, "it waits in the interpreter", func() bool {
		one := snapshot(t, c)[r.pid]
		if slices.Contains(one.functions, "wait") || !one.complete {
			t.Fatalf("its stack is %q", one.functions)
		}
		return slices.Contains(one.functions, "execute_ex")
	})
}

// A script in Ruby or PHP that divides its time between functions has samples of each by their
// shares of its time, as it measures them with its own clock, and as its own backtraces find
// them when a signal interrupts it. Each stack is a chain of calls of the script, with their
// lines.
func TestSharesOfScripts(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, one := range []struct {
		interpreter, name string
		outer             []scriptCall // of all stacks, outermost first
		timed             scriptCall
		lines             map[string][3]int64 // of functions that compute: the first, the last, and that of the call
		spin              string
	}{
		{"ruby", "shares.rb", []scriptCall{{"<main>", "shares.rb", 49}, {"turns", "shares.rb", 36}, {"block in turns", "shares.rb", 36}}, scriptCall{"timed", "shares.rb", 29},
			map[string][3]int64{"heavy": {11, 13, 12}, "medium": {15, 17, 16}, "light": {19, 21, 20}, "spin": {4, 9}}, "spin"},
		{"php", "shares.php", []scriptCall{{"{main}", "shares.php", 54}, {"turns", "shares.php", 37}, {"{closure}", "shares.php", 37}}, scriptCall{"timed", "shares.php", 30},
			map[string][3]int64{"heavy": {13, 15, 14}, "medium": {17, 19, 18}, "light": {21, 23, 22}, "Work::spin": {6, 10}}, "Work::spin"},
	} {
		t.Run(one.interpreter, func(t *testing.T) {
			r := script(t, one.interpreter, one.name)
			testenv.Once(t, func() error { // a machine whose CPUs are taken away delays the sampler
				var clock, found [3]float64
				rows := sampled(t, r.pid, time.Millisecond, func() {
					fmt.Fprintln(r.in)
					stop := make(chan struct{})
					done := make(chan struct{})
					go func() { // which interrupts it
						defer close(done)
						tick := time.NewTicker(3 * time.Millisecond)
						defer tick.Stop()
						for {
							select {
							case <-tick.C:
								syscall.Kill(r.pid, syscall.SIGUSR1)
							case <-stop:
								return
							}
						}
					}()
					fmt.Sscan(r.line(t), &clock[0], &clock[1], &clock[2])
					close(stop)
					<-done
					fmt.Sscan(r.line(t), &found[0], &found[1], &found[2])
				})
				names := []string{"heavy", "medium", "light"}
				var seen [3]float64
				for _, row := range rows {
					calls, _ := callsOf(row, one.name)
					i := slices.IndexFunc(calls, func(c scriptCall) bool { return slices.Contains(names, c.function) })
					if i < 0 {
						continue
					}
					seen[slices.Index(names, calls[i].function)]++
					if len(calls) > i+1 && calls[i+1].function != one.spin {
						continue // it handles a signal
					}
					want := append(slices.Clone(one.outer), one.timed)
					if !slices.Equal(calls[:i], want) {
						t.Fatalf("the stack is %v, want %v", calls, want)
					}
					for k, c := range calls[i:min(i+2, len(calls))] {
						of := one.lines[c.function]
						if k == 0 && len(calls) > i+1 && c.line != of[2] || c.line != 0 && (c.line < of[0] || c.line > of[1]) {
							t.Fatalf("the line of %s is %d: %v", c.function, c.line, calls)
						}
					}
				}
				samples, signals := sum(seen[:]), sum(found[:])
				t.Logf("%.0f samples %.3f, clock %.3f, %.0f signals %.3f", samples, shares(seen[:]), shares(clock[:]), signals, shares(found[:]))
				if samples < 1000 || signals < 300 {
					return fmt.Errorf("there are %.0f samples and %.0f signals", samples, signals)
				}
				for i, name := range names {
					share, byClock, bySignal := seen[i]/samples, clock[i]/sum(clock[:]), found[i]/signals
					if d := math.Abs(share - byClock); d > 4*deviation(byClock, samples) {
						return fmt.Errorf("the share of %s is %.3f, by its clock %.3f", name, share, byClock)
					}
					if d := math.Abs(share - bySignal); d > 4*(deviation(byClock, samples)+deviation(byClock, signals)) {
						return fmt.Errorf("the share of %s is %.3f, by its backtraces %.3f", name, share, bySignal)
					}
				}
				return nil
			})
		})
	}
}

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}

func shares(all []float64) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = v / sum(all)
	}
	return out
}

// deviation is the standard deviation of a share that is found in a number of samples.
func deviation(share, samples float64) float64 { return math.Sqrt(share * (1 - share) / samples) }
