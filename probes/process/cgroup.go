package process

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"time"

	"endoscope/probes/container"
)

// ContainerOf returns the container of a process; nil: unknown. A process that has ended keeps
// the last one seen. It is looked up once a second at most.
func ContainerOf(pid int) *container.Container { return containers.of(pid) }

// containers are those that ContainerOf has found.
var containers = containerCache{byPID: map[int]foundContainer{}}

type containerCache struct {
	mu    sync.Mutex
	byPID map[int]foundContainer
}

type foundContainer struct {
	container *container.Container
	until     time.Time // pids are reused, and processes are moved to other groups
}

// Limits of containerCache.
const (
	containerLife = time.Second
	maxContainers = 8192
)

func (x *containerCache) of(pid int) *container.Container {
	now := time.Now()
	x.mu.Lock()
	found, ok := x.byPID[pid]
	x.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.container
	}
	if group := cgroupOf(pid); group != "" {
		found.container = container.Default.Find(group)
	}
	found.until = now.Add(containerLife)
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.byPID) >= maxContainers {
		clear(x.byPID)
	}
	x.byPID[pid] = found
	return found.container
}

// inherit notes that a process was forked by another. What the pid's former process had is
// forgotten.
func (x *containerCache) inherit(pid, parent int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := x.byPID[parent]
	found.until = time.Time{}
	x.byPID[pid] = found
}

// RenewContainer makes the next ContainerOf of a process read its group.
func RenewContainer(pid int) { containers.expire(pid) }

func (x *containerCache) expire(pid int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := x.byPID[pid]
	found.until = time.Time{}
	x.byPID[pid] = found
}

// cgroupOf returns the control group of process pid, as this process sees the hierarchy: the
// path in the unified one (cgroup v2), such as /system.slice/docker-0123….scope, or if that is
// the root the longest path in one of version 1. "/" means no container, "" unknown.
func cgroupOf(pid int) string {
	text, err := os.ReadFile(path(pid, "cgroup"))
	if err != nil {
		return ""
	}
	name := groupIn(text)
	if name == "/" && exits(pid) {
		// In version 1 exiting processes are moved to the root
		// (proc_cgroup_show).
		return ""
	}
	return name
}

// exits reports whether a process is ending or has ended.
func exits(pid int) bool {
	var buf [statBytes]byte
	var s Stat
	return !readStat(pid, buf[:], &s) || s.Flags&pfExiting != 0
}

// groupIn parses lines such as 4:memory:/docker/0123… and 0::/user.slice.
func groupIn(text []byte) string {
	longest := ""
	for line := range bytes.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		unified := parts[0] == "0" && parts[1] == ""
		if unified && parts[2] != "/" {
			return parts[2]
		}
		if len(parts[2]) > len(longest) {
			longest = parts[2]
		}
	}
	return longest
}
