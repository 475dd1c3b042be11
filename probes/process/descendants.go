package process

import (
	"bytes"
	"os"
	"strconv"
)

// Descendants returns the processes that descend from those with these pids, without the
// calling process. A process whose parent has ended descends from the process that
// adopted it.
func Descendants(pids []int) []int {
	children := childrenOf
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		children = childrenListed()
	}
	seen := map[int]bool{os.Getpid(): true}
	for _, pid := range pids {
		seen[pid] = true
	}
	var out []int
	for at := pids; len(at) > 0; at = at[1:] {
		for _, child := range children(at[0]) {
			if !seen[child] {
				seen[child] = true
				out, at = append(out, child), append(at[:len(at):len(at)], child)
			}
		}
	}
	return out
}

// childrenOf reads the children of a process: those of each of its threads. The file exists
// where the kernel was built with CONFIG_PROC_CHILDREN.
func childrenOf(pid int) (out []int) {
	tasks, err := os.ReadDir(path(pid, "task"))
	if err != nil {
		return nil // it has ended
	}
	for _, task := range tasks {
		list, _ := os.ReadFile(path(pid, "task/"+task.Name()+"/children"))
		for _, word := range bytes.Fields(list) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// childrenListed returns childrenOf by one listing of all processes.
func childrenListed() func(pid int) []int {
	of := map[int][]int{}
	all, _ := List()
	for _, p := range all {
		of[p.Parent] = append(of[p.Parent], p.PID)
	}
	return func(pid int) []int { return of[pid] }
}
