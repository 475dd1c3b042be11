package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"endoscope/probes/process"
	"endoscope/probes/rights"
	"endoscope/probes/uprobe/attach"
)

// Machine checks the kernel, and what restricts this process.
func Machine() []Check {
	own, err := rights.Own()
	if err != nil {
		return []Check{{KindMachine, "/proc", No, err.Error(), "mount /proc"}}
	}
	checks := []Check{
		kernel(), types(), uprobes(), capabilities(own), lockdown(), seccomp(own), ptraceScope(own),
		sysctl("perf_event_paranoid", "kernel/perf_event_paranoid", "CAP_PERFMON is exempt from it"),
		sysctl("kptr_restrict", "kernel/kptr_restrict", "no stream reads addresses of the kernel"),
		sysctl("unprivileged_bpf", "kernel/unprivileged_bpf_disabled", "CAP_BPF is exempt from it"),
		pidNamespace(), userNamespace(), memlock(), files(),
	}
	for i := range checks {
		checks[i].Kind = KindMachine
	}
	return checks
}

func kernel() Check {
	c := Check{Name: "kernel", Verdict: OK, Found: "Linux " + release() + ", " + runtime.GOARCH}
	switch {
	case runtime.GOARCH != "amd64":
		c.Verdict, c.Remedy = Limited, "streams of functions, stacks and variables need x86-64"
	case !attach.KernelAtLeast("5.15"):
		c.Verdict, c.Remedy = Limited, "streams of /proc work; functions need Linux 5.15"
	case !attach.KernelAtLeast("6.1"):
		c.Verdict, c.Remedy = Limited, "stack_sample needs Linux 6.1; functions get a perf event for each probe, at most 1,000 a query, and Linux 6.6 has better"
	case !attach.KernelAtLeast("6.6"):
		c.Verdict, c.Remedy = Limited, "functions get a perf event for each probe, at most 1,000 a query; Linux 6.6 has better"
	case !attach.KernelAtLeast("6.13"):
		c.Found += ": entry and return of a function are two probes"
	default:
		c.Found += ": entry and return of a function are one probe"
	}
	return c
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "of unknown version"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func types() Check {
	if _, err := os.Stat(rights.KernelTypes); err != nil {
		return Check{Name: "btf", Verdict: No, Found: "there is no " + rights.KernelTypes,
			Remedy: "use a kernel that is built with CONFIG_DEBUG_INFO_BTF, and mount /sys"}
	}
	return Check{Name: "btf", Verdict: OK, Found: rights.KernelTypes}
}

func uprobes() Check {
	const pmu = "/sys/bus/event_source/devices/uprobe"
	if _, err := os.Stat(pmu); err != nil {
		return Check{Name: "uprobes", Verdict: No, Found: "there is no " + pmu, Remedy: "use a kernel that is built with CONFIG_UPROBE_EVENTS, and mount /sys"}
	}
	return Check{Name: "uprobes", Verdict: OK, Found: "built in"}
}

func capabilities(own rights.Process) Check {
	has, lacks := own.Effective&rights.Used, rights.Used&^own.Effective
	if own.Effective.Has(unix.CAP_SYS_ADMIN) { // it includes these two
		lacks &^= 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON
	}
	user := fmt.Sprintf("user %d", os.Geteuid())
	switch {
	case lacks == 0:
		return Check{Name: "capabilities", Verdict: OK, Found: user + " has " + strings.Join(rights.Used.Names(), ", ")}
	case has == 0:
		return Check{Name: "capabilities", Verdict: No, Found: user + " has none of " + strings.Join(lacks.Names(), ", "), Remedy: own.Remedy()}
	}
	return Check{Name: "capabilities", Verdict: Limited, Found: user + " lacks " + strings.Join(lacks.Names(), ", "), Remedy: own.Remedy()}
}

func lockdown() Check {
	c := Check{Name: "lockdown", Verdict: OK}
	text, err := os.ReadFile("/sys/kernel/security/lockdown")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Found = "not built in, or securityfs is not mounted"
	case err != nil:
		c.Found = "cannot be read: " + cause(err)
	default:
		_, mode, _ := strings.Cut(string(text), "[")
		c.Found, _, _ = strings.Cut(mode, "]")
	}
	if c.Found == "confidentiality" {
		c.Verdict, c.Remedy = No, "boot with lockdown=integrity: confidentiality forbids programs that read memory"
	}
	return c
}

func seccomp(own rights.Process) Check {
	if own.Filtered {
		return Check{Name: "seccomp", Verdict: Limited, Found: "a filter restricts this process",
			Remedy: "if streams are refused: a profile that allows bpf, perf_event_open and ptrace (podman run --security-opt seccomp=unconfined)"}
	}
	return Check{Name: "seccomp", Verdict: OK, Found: "no filter"}
}

func ptraceScope(own rights.Process) Check {
	c := Check{Name: "ptrace_scope", Verdict: OK}
	scope, err := readSysctl("kernel/yama/ptrace_scope")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Found = "Yama is not built in"
	case err != nil:
		c.Found = "cannot be read: " + cause(err)
	case scope == "0" || scope != "3" && own.Effective.Has(unix.CAP_SYS_PTRACE):
		c.Found = scope
	default:
		c.Verdict, c.Found = Limited, scope+": memory of processes that this one has not started cannot be read"
		c.Remedy = "CAP_SYS_PTRACE is exempt from it"
		if scope == "3" {
			c.Remedy = "it can only be changed by booting without kernel.yama.ptrace_scope = 3"
		}
	}
	return c
}

// sysctl shows a setting of the kernel that does not matter for those who have the rights,
// since users look for it.
func sysctl(name, path, why string) Check {
	value, err := readSysctl(path)
	if err != nil {
		return Check{Name: name, Verdict: OK, Found: "cannot be read: " + cause(err)}
	}
	return Check{Name: name, Verdict: OK, Found: value + " (" + why + ")"}
}

func readSysctl(path string) (string, error) {
	b, err := os.ReadFile("/proc/sys/" + path)
	return strings.TrimSpace(string(b)), err
}

// cause returns the error of the system call without the path.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

func pidNamespace() Check {
	c := Check{Name: "PID namespace", Verdict: OK, Found: "the machine's"}
	if !process.Numbered() {
		all, _ := process.ListFor(nil)
		c.Verdict, c.Found = No, fmt.Sprintf("a container's: only streams of /proc work, on the %d processes in it", len(all))
		c.Remedy = "share the machine's: hostPID: true in the pod, podman run --pid=host"
	}
	return c
}

func userNamespace() Check {
	c := Check{Name: "user namespace", Verdict: OK, Found: "the machine's"}
	if !process.InitialUsers() {
		c.Verdict, c.Found = No, "a container's: the kernel takes no eBPF programs from it"
		c.Remedy = "use the machine's: podman run as root and without --userns, hostUsers: true in the pod"
	}
	return c
}

func memlock() Check {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return Check{Name: "memlock", Verdict: OK, Found: "cannot be read: " + err.Error()}
	}
	c := Check{Name: "memlock", Verdict: OK, Found: limit(l.Cur, 1024, " KiB")}
	if !attach.KernelAtLeast("5.11") {
		c.Verdict, c.Remedy = Limited, "ulimit -l unlimited: before Linux 5.11 maps of programs count"
	} else {
		c.Found += " (since Linux 5.11 maps of programs do not count)"
	}
	return c
}

// filesNeeded is the number of open files with which a query of 1,000 perf events works.
const filesNeeded = 2048

func files() Check {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return Check{Name: "open files", Verdict: OK, Found: "cannot be read: " + err.Error()}
	}
	c := Check{Name: "open files", Verdict: OK, Found: limit(l.Cur, 1, "")}
	if l.Cur < filesNeeded {
		c.Verdict, c.Remedy = Limited, fmt.Sprintf("ulimit -n %d: stacks of many threads take one each", filesNeeded)
	}
	return c
}

func limit(n uint64, unit uint64, name string) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n/unit, 10) + name
}
