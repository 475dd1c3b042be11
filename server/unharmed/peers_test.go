package unharmed

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// TestPeers records the effect of bpftrace on each program: ENDOSCOPE_PEERS=1 writes
// testdata/peers.md. It does not test this project, and runs only on request.
func TestPeers(t *testing.T) {
	testenv.NeedUprobes(t)
	if os.Getenv("ENDOSCOPE_PEERS") == "" {
		t.Skip("ENDOSCOPE_PEERS is not set")
	}
	bpftrace, err := exec.LookPath("bpftrace")
	if err != nil {
		t.Skip("bpftrace is not installed")
	}
	version, _ := exec.Command(bpftrace, "--version").Output()
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	release, _, _ := strings.Cut(string(kernel), "-")
	var table strings.Builder
	fmt.Fprintf(&table, "What observing all functions does to the programs of this folder, on Linux %s.\n", strings.TrimSpace(release))
	table.WriteString("ENDOSCOPE_PEERS=1 go test -run TestPeers rewrites it; TestUnharmed tests our column.\n\n")
	fmt.Fprintf(&table, "| program | build | Endoscope | %s, `uprobe` and `uretprobe` of each function |\n|---|---|---|---|\n", strings.TrimSpace(string(version)))
	for _, p := range programs(t) {
		for _, flags := range p.builds {
			fields := strings.Fields(flags)
			if slices.Contains(fields, "-s") || slices.Contains(fields, "-static") {
				continue // bpftrace finds no functions, or more than it can attach to
			}
			b := p.compile(t, flags)
			want := b.untouched(t, rounds)
			effect := difference(want, traced(t, bpftrace, b))
			t.Logf("%s %s: %s", p.name(), flags, effect)
			ours := "unharmed"
			if p.returns != "" {
				ours += " (return_probes = " + p.returns + ")"
			}
			fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", p.name(), flags, ours, effect)
		}
	}
	if err := os.WriteFile("testdata/peers.md", []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// difference describes the effect on a program for the report.
func difference(want, got outcome) string {
	switch end := got.End; {
	case end == want.End:
	case end == "no end":
		return "**does not end**"
	case strings.HasPrefix(end, "bpftrace"):
		return end
	default:
		return "**ends with " + end + "**"
	}
	w, g := strings.Split(want.Transcript, "\n"), strings.Split(got.Transcript, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("**prints `%s`, not `%s`**", g[i], w[i])
		}
	}
	if len(w) != len(g) {
		return "**prints less or more**"
	}
	return "unharmed"
}

// sized returns the functions of a program that have a size in the symbol table: a
// wildcard would also match the others, and then bpftrace attaches to none. _start is
// left out, because it does not return and has no return address.
func sized(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && s.Size > 0 && s.Name != "_start" {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// traced runs the program while bpftrace counts and times all its functions.
func traced(t *testing.T, bpftrace string, b *build) outcome {
	t.Helper()
	var entries, returns []string
	for _, name := range sized(t, b.path) {
		// A Rust program contains its standard library: more functions than bpftrace
		// accepts.
		if filepath.Ext(b.source) == ".rs" && !strings.Contains(name, b.name()) {
			continue
		}
		entries = append(entries, fmt.Sprintf("uprobe:%s:%q", b.path, name))
		returns = append(returns, fmt.Sprintf("uretprobe:%s:%q", b.path, name))
	}
	script := strings.Join(entries, ",\n") + " { @start[tid] = nsecs; }\n" +
		strings.Join(returns, ",\n") + " /@start[tid]/ { @took[probe] = avg(nsecs - @start[tid]); delete(@start[tid]); }\n" +
		// It prints when everything is attached.
		`interval:ms:100 /!@told/ { @told = 1; printf("attached\n"); }`
	cmd := exec.Command(bpftrace, "-e", script)
	cmd.Env = append(os.Environ(), "BPFTRACE_MAX_PROBES=4096")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	attached, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		seen := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !seen && lines.Text() == "attached" {
				seen = true
				close(attached)
			}
		}
	}()
	defer func() {
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(limit):
			cmd.Process.Kill()
		}
		cmd.Wait()
	}()
	select {
	case <-attached:
	case <-ended:
		t.Logf("%s", complaints.String())
		return outcome{End: "bpftrace does not attach"}
	case <-time.After(limit):
		return outcome{End: "bpftrace does not attach in time"}
	}
	return b.untouched(t, rounds)
}
