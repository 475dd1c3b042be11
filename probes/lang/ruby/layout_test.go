package ruby

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/lang/interpreter"
	"endoscope/probes/lang/interpreter/interpretertest"
	"endoscope/probes/testenv"
)

// threads is a program with three threads, each of which waits in different functions. It
// prints the numbers of the threads, and then the backtrace that Ruby itself gives of each.
const threads = `
class Queues
  def take(n) = n > 0 ? take(n - 1) : $queue.pop
  def self.größe
    [1].each { |x| 大きさ(x) }
  end
  def self.大きさ(x)
    loop { sleep 1000 }
  end
end
$queue = Queue.new
a = Thread.new { Queues.new.take(3) }
b = Thread.new do
  Queues.größe
end
def number(t) = t.respond_to?(:native_thread_id) ? t.native_thread_id : 0
Thread.pass while [a, b].any? { |t| t.status == "run" || number(t).nil? }
def last(*threads)
  threads.each do |t|
    puts number(t)
    puts t.backtrace
    puts
  end
  puts Process.pid
  puts caller(0)
  puts
  $stdout.flush
  $stdin.read
end
eval "last(a, b)", binding, "evaluated", 77
`

// padded is threads with a method whose instructions are more than those in the first part of
// the index of lines.
func padded() string {
	var b strings.Builder
	b.WriteString("def long\n  x = 0\n")
	for range 300 {
		b.WriteString("  x += 1\n\n")
	}
	b.WriteString("  return x unless block_given?\n  yield\n  x -= 1\nend\nlong do\n")
	return b.String() + threads + "end\n"
}

// interpreters returns the installed ones.
func interpreters(t *testing.T) []string {
	found := []string{testenv.NeedProgram(t, "ruby")}
	more, _ := filepath.Glob("/opt/rubies/*/bin/ruby")
	return append(found, more...)
}

// The methods, blocks, files and lines of each thread are those that Ruby itself reports.
func TestStacks(t *testing.T) {
	testenv.NeedRoot(t)
	for _, ruby := range interpreters(t) {
		for name, text := range map[string]string{"short": threads, "long": padded()} {
			t.Run(ruby+"/"+name, func(t *testing.T) {
				script := filepath.Join(t.TempDir(), "threads.rb")
				if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				compare(t, exec.Command(ruby, script))
			})
		}
	}
}

// compare compares the stacks of the threads of a program with those that it prints.
func compare(t *testing.T, cmd *exec.Cmd) {
	in, _ := cmd.StdinPipe()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Process.Kill(); cmd.Wait() }()
	said := map[int][]string{}
	lines := bufio.NewScanner(out)
	for range 3 {
		if !lines.Scan() {
			t.Fatal("it has ended")
		}
		tid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		said[tid] = nil
		for lines.Scan() && lines.Text() != "" {
			said[tid] = append(said[tid], lines.Text())
		}
	}
	p, err := interpretertest.Open(cmd.Process.Pid, &Language)
	if err != nil {
		t.Fatal(err)
	}
	for tid, want := range said {
		if tid == 0 { // Ruby before 3.1 does not say the numbers of threads
			continue
		}
		testenv.Until(t, "it is where it said that it is", func() bool {
			thread, ok := p.Thread(tid)
			if !ok {
				t.Fatalf("thread %d is not found", tid)
			}
			calls, ok := p.Calls(thread, nil)
			if !ok { // it runs
				return false
			}
			frames, ok := p.Functions(calls, nil)
			if !ok {
				return false
			}
			got := backtrace(frames)
			if tid == cmd.Process.Pid { // it is in read now, three lines below
				if len(got) == 0 || !strings.HasSuffix(got[0], ":in `read'") {
					return false
				}
				got, want[0] = got[1:], strings.TrimSuffix(got[0], "`read'")+"`last'"
			}
			if !slices.Equal(got, want) {
				t.Errorf("thread %d is in\n%s\nwant\n%s", tid, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			return true
		})
	}
	if _, ok := p.Thread(1); ok {
		t.Error("a thread of another program is found")
	}
	main, _ := p.Thread(cmd.Process.Pid)
	main.ID++
	if _, ok := p.Calls(main, nil); ok {
		t.Error("the state of another thread is read")
	}
	if _, ok := p.Functions([]interpreter.Call{{Code: main.State}}, nil); ok {
		t.Error("a thread's state is taken for a function")
	}
}

// backtrace returns frames as Ruby prints them: a method in C is where it was called.
func backtrace(frames []interpreter.Frame) []string {
	var out []string
	for i, f := range frames {
		at := slices.IndexFunc(frames[i:], func(f interpreter.Frame) bool { return f.File != "" })
		if at >= 0 {
			out = append(out, fmt.Sprintf("%s:%d:in `%s'", frames[i+at].File, frames[i+at].Line, f.Function))
		}
	}
	return out
}

// Damaged files yield errors and no panics.
func TestDamagedFilesAreErrors(t *testing.T) {
	path, err := filepath.EvalSymlinks(library(t))
	if err != nil {
		t.Fatal(err)
	}
	interpretertest.ReadDamaged(t, &Language, path, "libruby.so")
}

// library returns the file of the interpreter.
func library(t *testing.T) string {
	out, err := exec.Command(testenv.NeedProgram(t, "ruby"), "-e", `puts File.read("/proc/self/maps")[/\S*libruby\S*/] || RbConfig.ruby`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Unknown versions and builds that export no machine are refused, by name. Without the table of
// symbols, only names of methods in C are missing.
func TestUnknownBuildsAreRefused(t *testing.T) {
	b, err := os.ReadFile(library(t))
	if err != nil {
		t.Fatal(err)
	}
	version := testenv.Output(t, "ruby", "-e", "print RUBY_VERSION")
	for want, change := range map[string][2]string{
		"Ruby 9." + version[2:3] + " is not known": {"\x00" + version + "\x00", "\x009" + version[1:] + "\x00"},
		"Ruby " + version[:3] + " without symbols": {"\x00ruby_current_vm_ptr\x00", "\x00ruby_current_vm_pta\x00"},
		"it is no Ruby": {"\x00ruby_version\x00", "\x00ruby_vorsion\x00"},
	} {
		changed := bytes.ReplaceAll(b, []byte(change[0]), []byte(change[1]))
		if _, err := ReadLayout(bytes.NewReader(changed), "libruby.so"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	changed := bytes.ReplaceAll(b, []byte("\x00"+allSymbols+"\x00"), []byte("\x00rb_sym_all_symbolz\x00"))
	l, err := ReadLayout(bytes.NewReader(changed), "libruby.so")
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := l.(*layout).symbol(interpreter.Memory{PID: os.Getpid()}, 1<<20); ok {
		t.Errorf("a name is %q", f)
	}
}
