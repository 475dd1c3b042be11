package stack

import (
	"fmt"
	"testing"

	"endoscope/probes/testenv"
)

// readers is a program with a thread that reads what takes CPU time, one that reads what does not
// come, and one that computes.
const readers = `
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
static char zeros[1 << 20];
static volatile unsigned long sink;
static void *busy(void *p) { prctl(PR_SET_NAME, "busy"); for (int fd = open("/dev/zero", O_RDONLY);;) if (read(fd, zeros, sizeof zeros) < 0) return 0; }
static void *idle(void *p) { int fds[2]; char c; prctl(PR_SET_NAME, "idle"); if (pipe(fds) == 0) sink += read(fds[0], &c, 1); return 0; }
static void *computing(void *p) { prctl(PR_SET_NAME, "computing"); for (;;) sink++; }
int main(void) {
	pthread_t t;
	pthread_create(&t, 0, busy, 0), pthread_create(&t, 0, idle, 0), pthread_create(&t, 0, computing, 0);
	puts("1"); fflush(stdout); pause();
}`

// TestRunnable: whether a thread wants a CPU does not depend on its state.
func TestRunnable(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileCText(t, readers, "-O2", "-pthread"))
	r.number(t)
	c := collect(t, r.pid)
	type kind struct {
		state    string
		runnable bool
	}
	testenv.Until(t, "each thread does what it is to do", func() bool {
		all := byName(snapshot(t, c))
		return len(all) == 4 && all["idle"].syscall == "read" && !all["idle"].runnable && all["busy"].syscall == "read"
	})
	testenv.Once(t, func() error { // a thread without a processor stays where it is
		const snapshots = 200
		found := map[string]map[kind]int{}
		for range snapshots {
			for name, s := range byName(snapshot(t, c)) {
				if found[name] == nil {
					found[name] = map[kind]int{}
				}
				found[name][kind{s.state, s.runnable}]++
			}
		}
		for name, want := range map[string]kind{"busy": {"IO", true}, "idle": {"IO", false}, "computing": {"RUN", true}} {
			runnable := 0
			for k, n := range found[name] {
				if k.runnable == want.runnable {
					runnable += n
				}
			}
			// How much of the time of a thread that reads is in the kernel depends on the machine.
			if n := found[name][want]; n < snapshots/2 || runnable < snapshots*9/10 {
				return fmt.Errorf("%s: %v, %d of %d times %v", name, found[name], n, snapshots, want)
			}
		}
		return nil
	})
}
