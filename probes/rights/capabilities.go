package rights

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Set is a set of capabilities.
type Set uint64

// Has reports whether capability c is in the set.
func (s Set) Has(c uint) bool { return s&(1<<c) != 0 }

// Used are the capabilities that streams use: a program that has them needs no other right.
const Used Set = 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON | 1<<unix.CAP_SYS_PTRACE

var names = map[uint]string{unix.CAP_BPF: "CAP_BPF", unix.CAP_PERFMON: "CAP_PERFMON", unix.CAP_SYS_PTRACE: "CAP_SYS_PTRACE"}

// Names returns the names of the used capabilities that are in the set.
func (s Set) Names() (out []string) {
	for c, name := range names {
		if s.Has(c) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Process describes what restricts this process.
type Process struct {
	Effective  Set  // what it may use
	Bounding   Set  // the most that it, and what it executes, can have
	NoNewPrivs bool // it gains nothing by executing a file with capabilities
	Filtered   bool // a seccomp filter restricts its system calls
}

// Own returns the restrictions of this process.
func Own() (p Process, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return p, err
	}
	return parse(status)
}

func parse(status []byte) (p Process, err error) {
	var noNewPrivs, seccomp int
	for _, f := range []struct {
		name, format string
		to           any
	}{
		{"CapEff", "%x", &p.Effective}, {"CapBnd", "%x", &p.Bounding}, {"NoNewPrivs", "%d", &noNewPrivs}, {"Seccomp", "%d", &seccomp},
	} {
		_, rest, ok := bytes.Cut(status, []byte("\n"+f.name+":\t"))
		if !ok {
			return p, errors.New("/proc/self/status has no line " + f.name)
		}
		line, _, _ := strings.Cut(string(rest), "\n")
		if _, err := fmt.Sscanf(line, f.format, f.to); err != nil {
			return p, fmt.Errorf("/proc/self/status: %s: %w", f.name, err)
		}
	}
	p.NoNewPrivs, p.Filtered = noNewPrivs != 0, seccomp != 0
	return p, nil
}

// Remedy says how this process, or another in its place, gets the capabilities that streams
// use, for a hint.
func (p Process) Remedy() string {
	const daemon = "ask the endoscoped of root with --connect (endoscope help permissions)"
	if p.Bounding&Used != Used {
		missing := (Used &^ p.Bounding).Names()
		return fmt.Sprintf("no process here can have %s: add it to the container (securityContext.capabilities, podman run --cap-add), or %s",
			strings.Join(missing, ", "), daemon)
	}
	program, err := os.Executable()
	if err != nil || p.NoNewPrivs {
		return "run as root, or " + daemon
	}
	return fmt.Sprintf("run as root, or as root once: setcap %s+ep %s, or %s", strings.ToLower(strings.Join(Used.Names(), ",")), program, daemon)
}
