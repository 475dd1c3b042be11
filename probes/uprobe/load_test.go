package uprobe

import (
	"context"
	"testing"

	"github.com/prometheus/procfs"

	"endoscope/planner/catalog"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// programCount counts the descriptors of eBPF programs that this process holds.
func programCount(t testing.TB) (n int) {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	targets, err := self.FileDescriptorTargets()
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range targets {
		if to == "anon_inode:bpf-prog" {
			n++
		}
	}
	return n
}

// Load attaches nothing. Start uses what was loaded, and Stop unloads it whether or not
// the source was started.
func TestLoad(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("alpha"), "timestamp", "duration")
	prepare := func() probes.Source {
		src, err := p.Prepare(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := src.Load(context.Background(), probes.Options{}); err != nil {
			t.Fatal(err)
		}
		return src
	}
	before := programCount(t)
	unused, used := prepare(), prepare()
	if n := programCount(t); n < before+2 {
		t.Errorf("%d programs are loaded, %d were before", n, before)
	}
	if n := linkCount(t, target); n != 0 || len(p.Probes()) != 0 {
		t.Errorf("loading has attached %d links, and %v", n, p.Probes())
	}
	if err := unused.Stop(); err != nil {
		t.Fatal(err)
	}
	sink := newRecord(spec)
	if err := used.Start(context.Background(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	r.round()
	if err := used.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(sink.rows); n != 10 {
		t.Errorf("%d rows of 10 calls", n)
	}
	p.kernel.WarmUp.Close() // it may still be running
	if n := programCount(t); n != before {
		t.Errorf("%d programs are left, %d were before", n, before)
	}
	// A target that has ended meanwhile is refused, and nothing is left loaded.
	late := prepare()
	r.end()
	if err := late.Start(context.Background(), newRecord(spec), probes.Options{}); err == nil {
		t.Error("a process that has ended was probed")
	}
	p.kernel.WarmUp.Close() // it may still be running
	if n := programCount(t); n != before {
		t.Errorf("%d programs are left of a start that failed, %d were before", n, before)
	}
}

// With Prompt the programs wake the reader for each event; otherwise only when much is
// waiting.
func TestPrompt(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	for _, prompt := range []bool{true, false} {
		spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("beta"), "timestamp")
		spec.Settings.Prompt = prompt
		src, _ := start(t, p, spec)
		p.mu.Lock()
		var wake uint64
		err := p.active[src.(*source)].Objects.Variables[bpf.FunctionVarWakeBytes].Get(&wake)
		p.mu.Unlock()
		if err != nil || (wake == 0) != prompt {
			t.Errorf("prompt is %v, and the reader is woken when %d bytes wait (%v)", prompt, wake, err)
		}
	}
}
