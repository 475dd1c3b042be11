package server_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

const (
	callRounds = 5
	callMillis = 60 // of the target's time, for a measurement
)

// callVariant is something that is attached to a target's function while it is
// measured; attach returns how to detach it.
type callVariant struct {
	name   string
	over   string // the variant that does nothing at the same site
	attach func(b *testing.B, t callTarget, pid int) (detach func())
}

var callVariants = []callVariant{
	{name: "no probe", attach: func(*testing.B, callTarget, int) func() { return func() {} }},
	{name: "empty", attach: emptyAt(countQuery, false)},
	{name: "count", over: "empty", attach: selecting(countQuery)},
	{name: "count, children followed", over: "empty", attach: following(selecting(countQuery))},
	{name: "1 in 1000 counted", over: "empty at args", attach: selecting(rareQuery)},
	{name: "empty at args", attach: emptyAt(rareQuery, false)},
	{name: "32-byte record", over: "empty", attach: selecting("SELECT timestamp FROM function_start WHERE function_name = '%s'")},
	{name: "empty session", attach: emptyAt(durationQuery, true)},
	{name: "duration", over: "empty session", attach: selecting(durationQuery)},
	{name: "duration, children followed", over: "empty session", attach: following(selecting(durationQuery))},
	{name: "refused at entry", over: "empty at args", attach: selecting(
		"SELECT COUNT(*), AVG(duration) FROM function_duration WHERE function_name = '%s' AND arg0 < 0")},
	{name: "record with caller", over: "empty", attach: selecting("SELECT caller FROM function_start WHERE function_name = '%s'")},
	{name: "record with stack", over: "empty", attach: selecting("SELECT stack FROM function_start WHERE function_name = '%s'")},
	{name: "duration record", over: "empty session", attach: selecting("SELECT duration FROM function_duration WHERE function_name = '%s'")},
	{name: "self_time record", over: "empty session", attach: selecting("SELECT self_time FROM function_duration WHERE function_name = '%s'")},
	{name: "sum of self_time", over: "empty session", attach: selecting("SELECT function_name, SUM(self_time) FROM function_duration WHERE function_name = '%s' GROUP BY function_name")},
	{name: "record with args.n", over: "empty", attach: selecting("SELECT args.n FROM function_start WHERE function_name = '%s'")},
	{name: "record with a field, args.item.id", over: "empty", attach: selecting("SELECT args.item.id FROM function_start WHERE function_name = '%s'")},
	{name: "record with a text, args.text", over: "empty", attach: selecting("SELECT args.text FROM function_start WHERE function_name = '%s'")},
	{name: "refused by args.text", over: "empty", attach: selecting("SELECT args.n FROM function_start WHERE function_name = '%s' AND args.text = 'SELECT 2'")},
	{name: "record with str(arg1)", over: "empty", attach: ofTyped("SELECT str(arg1) FROM function_start WHERE function_name = '%s'")},
	{name: "duration record with args.text", over: "empty session", attach: selecting("SELECT duration, args.text FROM function_duration WHERE function_name = '%s'")},
	{name: "duration record with retval, an int", over: "empty session", attach: ofTyped("SELECT duration, retval FROM function_duration WHERE function_name = '%s'")},
	{name: "duration histogram", over: "empty session", attach: selecting("SELECT HISTOGRAM(duration) FROM function_duration WHERE function_name = '%s'")},
	{name: "duration quantile", over: "empty session", attach: selecting("SELECT QUANTILE(duration, 0.99) FROM function_duration WHERE function_name = '%s'")},
	{name: "duration quantile in windows", over: "empty session", attach: selecting("SELECT QUANTILE(duration, 0.99) FROM TUMBLE(function_duration, 1s) WHERE function_name = '%s'")},
	{name: "count by stack", over: "empty", attach: selecting("SELECT folded_stack(stack) AS stack, COUNT(*) FROM function_start WHERE function_name = '%s' GROUP BY stack")},
	{name: "bpftrace count", over: "empty", attach: bpftrace("uprobe:%[1]s:%[2]s { @ = count(); }")},
	{name: "bpftrace 1 in 1000", over: "empty at args", attach: bpftrace("uprobe:%[1]s:%[2]s / arg0 %% 1000 == 0 / { @ = count(); }")},
	{name: "bpftrace duration", over: "empty session", attach: bpftrace(
		"uprobe:%[1]s:%[2]s { @s[tid] = nsecs; } uretprobe:%[1]s:%[2]s / @s[tid] / { @ = avg(nsecs - @s[tid]); delete(@s[tid]); }")},
	{name: "bpftrace duration histogram", over: "empty session", attach: bpftrace(
		"uprobe:%[1]s:%[2]s { @s[tid] = nsecs; } uretprobe:%[1]s:%[2]s / @s[tid] / { @ = hist(nsecs - @s[tid]); delete(@s[tid]); }")},
	{name: "bpftrace text", over: "empty", attach: ofTypedBy(bpftrace(`uprobe:%[1]s:%[2]s { printf("%%s\n", str(arg1)); }`))},
	{name: "bpftrace count by stack", over: "empty", attach: bpftrace("uprobe:%[1]s:%[2]s { @[ustack] = count(); }")},
}

const (
	countQuery    = "SELECT function_name, COUNT(*) FROM function_start WHERE function_name = '%s' GROUP BY function_name"
	rareQuery     = "SELECT COUNT(*) FROM function_start WHERE function_name = '%s' AND arg0 %% 1000 = 0"
	durationQuery = "SELECT function_name, COUNT(*), AVG(duration) FROM function_duration WHERE function_name = '%s' GROUP BY function_name"
)

// BenchmarkPerCall is what a call of a function costs its program, in ns of the
// program's own processor time beyond the call without a probe: for functions
// that begin with different instructions, and for what a query asks of them.
// Beside it stand a program that does nothing at the instruction that the query
// probes, and, where it is installed, bpftrace, which probes the entry. All
// variants take turns; the figures are medians of the rounds.
//
//	go test -run '^$' -bench PerCall -benchtime 1x ./server
//	go test -run '^$' -bench PerCall/push -benchtime 1x ./server
func BenchmarkPerCall(b *testing.B) {
	testenv.NeedUprobes(b)
	for _, t := range callTargets(b) {
		b.Run(strings.NewReplacer(" ", "_", ",", "").Replace(t.name), func(b *testing.B) {
			for b.Loop() {
				perCall(b, t)
			}
		})
	}
}

func perCall(b *testing.B, t callTarget) {
	c := t.start(b)
	c.measure(1)
	ns := map[string][]float64{}
	for range callRounds {
		for _, v := range callVariants {
			detach := v.attach(b, t, c.cmd.Process.Pid)
			if detach == nil {
				continue
			}
			ns[v.name] = append(ns[v.name], c.measure(callMillis))
			detach()
		}
	}
	median := func(name string) float64 {
		slices.Sort(ns[name])
		return ns[name][len(ns[name])/2]
	}
	plain := median("no probe")
	var table strings.Builder
	for _, v := range callVariants {
		if ns[v.name] == nil {
			continue
		}
		added := median(v.name) - plain
		fmt.Fprintf(&table, "%-36s %9.0f ns", v.name, added)
		unit := strings.ReplaceAll(v.name, " ", "-")
		b.ReportMetric(added, unit+"-ns")
		if ns[v.over] != nil {
			ratio := added / (median(v.over) - plain)
			fmt.Fprintf(&table, "  %5.2f x %s", ratio, v.over)
			b.ReportMetric(ratio, unit+"-ratio")
		}
		table.WriteString("\n")
	}
	// The log of a benchmark is cut after ten lines.
	fmt.Printf("\na call of a function that begins with %s takes %.1f ns; beyond that\n%s", t.name, plain, table.String())
}

// selecting attaches the probes of a statement that names the function by %s.
func selecting(statement string) func(*testing.B, callTarget, int) func() {
	return func(b *testing.B, t callTarget, pid int) func() {
		s, text := engineFor(b, pid), fmt.Sprintf(statement, t.function)
		r, err := s.Execute(context.Background(), text)
		if err != nil { // refused, as returns of some functions are
			return nil
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for {
				e, err := r.Next(context.Background())
				if err != nil {
					return
				}
				if e.Batch != nil {
					e.Batch.Release()
				}
			}
		}()
		return func() {
			r.Stop()
			<-read
			for _, l := range r.Summary().Losses {
				b.Errorf("%s lost %d: %s", text, l.N, l.Cause)
			}
			r.Close()
		}
	}
}

// following is attach in a session that follows children.
func following(attach func(*testing.B, callTarget, int) func()) func(*testing.B, callTarget, int) func() {
	return func(b *testing.B, t callTarget, pid int) func() {
		set := func(value string) {
			if _, err := engineFor(b, pid).Execute(context.Background(), "SET follow = "+value); err != nil {
				b.Fatal(err)
			}
		}
		set("children")
		defer set("none")
		return attach(b, t, pid)
	}
}

// ofTyped is query for the target with types only: the others' second argument is
// nothing, and what they return is of no known type.
func ofTyped(statement string) func(*testing.B, callTarget, int) func() {
	return ofTypedBy(selecting(statement))
}

func ofTypedBy(attach func(*testing.B, callTarget, int) func()) func(*testing.B, callTarget, int) func() {
	return func(b *testing.B, t callTarget, pid int) func() {
		if t.function != "typed" {
			return nil
		}
		return attach(b, t, pid)
	}
}

// engines are the sessions by process, so that only the first query of each
// reads the target's symbols.
var engines = map[int]wire.Session{}

func engineFor(b *testing.B, pid int) wire.Session {
	if engines[pid] != nil {
		return engines[pid]
	}
	e, err := server.New(server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := e.NewSession(context.Background(), wire.Options{PID: pid})
	if err != nil {
		b.Fatal(err)
	}
	engines[pid] = s
	b.Cleanup(func() { delete(engines, pid); s.Close(); e.Close() })
	return s
}

var siteAddress = regexp.MustCompile(` at (0x[0-9a-f]+)`)

// emptyAt attaches a program that does nothing where a query's probe would be,
// at the entry alone or, as a session, at the return as well.
func emptyAt(statement string, session bool) func(*testing.B, callTarget, int) func() {
	const multi, sessions = 48, 57 // BPF_TRACE_UPROBE_MULTI, BPF_TRACE_UPROBE_SESSION
	return func(b *testing.B, t callTarget, pid int) func() {
		if session && t.name == "Go" {
			return nil // a return trap crashes Go programs
		}
		var offset uint64
		s := engineFor(b, pid)
		r, err := s.Execute(context.Background(), "EXPLAIN "+fmt.Sprintf(statement, t.function))
		if err != nil {
			return nil
		}
		for _, row := range read(b, r).rows {
			// The entry comes first, exits behind it.
			if m := siteAddress.FindStringSubmatch(row[0]); m != nil && offset == 0 {
				offset, _ = strconv.ParseUint(m[1], 0, 64)
			}
		}
		if offset == 0 {
			b.Fatalf("the plan names no site of %s", t.function)
		}
		kind := uint32(multi)
		if session {
			kind = sessions
		}
		fd := linkEmpty(b, t.path, offset, kind, pid)
		return func() { unix.Close(fd) }
	}
}

// linkEmpty attaches a program that returns 0 at an offset of a file.
func linkEmpty(b *testing.B, path string, offset uint64, kind uint32, pid int) (fd int) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: ebpf.AttachType(kind), License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer prog.Close() // the link keeps it
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		b.Fatal(err)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(name)
	pin.Pin(&offset)
	attr := struct { // union bpf_attr, BPF_LINK_CREATE of uprobe_multi
		program, target, kind, flags       uint32
		path, offsets, refCounters, cookie uint64
		count, multiFlags, pid, _          uint32
	}{
		program: uint32(prog.FD()), kind: kind, path: uint64(uintptr(unsafe.Pointer(name))),
		offsets: uint64(uintptr(unsafe.Pointer(&offset))), count: 1, pid: uint32(pid),
	}
	const linkCreate = 28
	r, _, errno := unix.Syscall(unix.SYS_BPF, linkCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		b.Fatal(errno)
	}
	return int(r)
}

// bpftrace attaches a program of bpftrace, given as format of the target's path
// and the function's name; nothing where it is not installed.
func bpftrace(program string) func(*testing.B, callTarget, int) func() {
	return func(b *testing.B, t callTarget, _ int) func() {
		if _, err := exec.LookPath("bpftrace"); err != nil || t.name == "Go" && strings.Contains(program, "uretprobe") {
			return nil // a return trap crashes Go programs
		}
		end, said := runBpftrace(b, nil, "-e", `BEGIN { printf("ready\n"); } `+fmt.Sprintf(program, t.path, t.symbol))
		if end == nil {
			b.Fatalf("bpftrace ended: %s", said)
		}
		return end
	}
}

// runBpftrace starts bpftrace with variables and arguments, and waits until it prints ready. end ends
// it; it is nil if bpftrace has ended before, and then said is what it wrote to standard error.
func runBpftrace(b *testing.B, variables []string, arguments ...string) (end func(), said string) {
	cmd := exec.Command("bpftrace", append([]string{"-B", "line"}, arguments...)...)
	cmd.Env = append(os.Environ(), variables...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	if lines.Text() != "ready" {
		_ = cmd.Wait()
		return nil, errs.String()
	}
	ended := make(chan struct{})
	go func() { // what it prints is read, so that it does not wait
		for lines.Scan() {
		}
		_ = cmd.Wait()
		close(ended)
	}()
	return func() {
		for { // it forgets a signal that comes while it attaches
			_ = cmd.Process.Signal(syscall.SIGINT)
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
			}
		}
	}, ""
}
