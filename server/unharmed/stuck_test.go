package unharmed

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// stuck describes where the threads of the given processes and of this one are in the
// kernel, and where this process's goroutines are, for a program or query that does
// not end.
func stuck(pids ...int) string {
	var b strings.Builder
	for _, pid := range append(pids, os.Getpid()) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, task := range tasks {
			stat, _ := os.ReadFile(task + "/stat")
			stack, _ := os.ReadFile(task + "/stack")
			fmt.Fprintf(&b, "%s%s\n", stat, stack)
		}
	}
	all := make([]byte, 1<<20)
	b.Write(all[:runtime.Stack(all, true)])
	return b.String()
}
