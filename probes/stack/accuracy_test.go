package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// queue is a C++ program whose threads wait for conditions, locks and futures, and
// throw exceptions while they work.
const queue = `
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
struct Job { std::string name; };
template <class T> class Queue {
	std::mutex m; std::condition_variable c; std::vector<T> q;
public:
	T pop() { std::unique_lock<std::mutex> l(m); c.wait(l, [&] { return !q.empty(); }); T t = q.back(); q.pop_back(); return t; }
	void push(T t) { std::lock_guard<std::mutex> l(m); q.push_back(std::move(t)); c.notify_one(); }
};
static Queue<Job> jobs; static std::mutex held; static std::map<std::string, int> seen;
static void process(const Job &j) {
	volatile int x = 0; for (int i = 0; i < 20000; i++) x += i;
	try { if (++seen[j.name] % 2) throw std::string("odd"); } catch (std::string &) { x++; }
}
int main() {
	std::vector<std::thread> t;
	held.lock();
	t.emplace_back([] { for (;;) process(jobs.pop()); });
	t.emplace_back([] { std::lock_guard<std::mutex> l(held); });
	std::promise<int> p; auto f = p.get_future();
	t.emplace_back([&] { f.get(); });
	std::function<void(int)> rest = [](int s) { std::this_thread::sleep_for(std::chrono::seconds(s)); };
	t.emplace_back(rest, 1000);
	for (int i = 0; i < 40; i++) t.emplace_back([i] { for (volatile long n = 0;; n++) if (n % (100000 + i) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
	for (int i = 0;; i++) { jobs.push({std::to_string(i % 10)}); std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
}`

// For real programs under load, stopped by the test only for the comparison, at least
// 99 of 100 threads have the stack that gdb, with its own unwinder, finds: the same
// addresses, to the end.
func TestAccuracy(t *testing.T) {
	testenv.NeedUprobes(t)
	gdb := testenv.NeedProgram(t, "gdb")
	source := filepath.Join(t.TempDir(), "queue.cc")
	if err := os.WriteFile(source, []byte(queue), 0o600); err != nil {
		t.Fatal(err)
	}
	equal, all := 0, 0
	for _, c := range []struct {
		name   string
		start  func(t *testing.T) (pids []int)
		rounds int
	}{
		{"redis", func(t *testing.T) []int { return []int{testenv.BusyRedis(t)} }, 2},
		{"PostgreSQL", func(t *testing.T) []int {
			postmaster, backend := testenv.BusyPostgres(t)
			return []int{postmaster, backend, backend}
		}, 1},
		{"C++", func(t *testing.T) []int {
			pid := testenv.Run(t, exec.Command(testenv.CompileC(t, source, "-O2", "-g", "-pthread")))
			testenv.Until(t, "the program has all its threads", func() bool {
				tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
				return len(tasks) == 45
			})
			return []int{pid}
		}, 1},
		{"Go", func(t *testing.T) []int {
			r := run(t, testenv.CompileGo(t, "testdata/goshapes"))
			r.number(t)
			return []int{r.pid}
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			same, threads := 0, 0
			for _, pid := range c.start(t) {
				for range c.rounds {
					a, b := compareStacks(t, gdb, pid)
					same, threads = same+a, threads+b
					time.Sleep(20 * time.Millisecond) // in which the threads run
				}
			}
			t.Logf("%d of %d stacks are gdb's", same, threads)
			equal, all = equal+same, all+threads
		})
	}
	t.Logf("over all: %d of %d", equal, all)
	if all < 50 || float64(equal) < 0.99*float64(all) {
		t.Errorf("%d of %d stacks are gdb's", equal, all)
	}
}

// compareStacks stops a process, samples it, runs gdb on it, and continues it.
func compareStacks(t *testing.T, gdb string, pid int) (equal, all int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	testenv.Until(t, "every thread stands still", func() bool { return stopped(pid) })
	type stack struct {
		pcs       []uint64
		functions string
		isGo      bool
	}
	ours := map[string]stack{}
	c := collect(t, pid)
	defer c.kernel.remove(pid)
	err := c.snapshotThreads(func(o *observation) {
		if o.goroutine != 0 {
			return
		}
		var names []string
		for _, f := range o.stack.value.([]types.Value) {
			names = append(names, f.A.([]types.Value)[0].S)
		}
		ours[strconv.Itoa(int(o.tid))] = stack{slices.Clone(c.unwinder.pcs), strings.Join(names, " < "), strings.Contains(names[len(names)-1], "runtime.")}
	})
	if err != nil {
		t.Fatal(err)
	}
	for tid, theirs := range gdbStacks(t, gdb, pid, "str(t.ptid[1])") {
		all++
		mine := ours[tid]
		if mine.isGo && len(theirs) > len(mine.pcs) { // gdb continues where the stack of the scheduler ends
			theirs = theirs[:len(mine.pcs)]
		}
		if n := len(theirs); n > 1 && theirs[n-1] == 0 { // gdb continues from a thread that has not run since clone
			theirs = theirs[:n-1]
		}
		if slices.Equal(mine.pcs, theirs) {
			equal++
			continue
		}
		t.Logf("thread %s of %d is at %x, by gdb at %x (%s)", tid, pid, mine.pcs, theirs, mine.functions)
	}
	return equal, all
}

// stopped reports whether all threads of a process are stopped.
func stopped(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if i := strings.LastIndexByte(string(b), ')'); i < 0 || !strings.HasPrefix(string(b[i:]), ") T") {
			return false
		}
	}
	return len(files) > 0
}
