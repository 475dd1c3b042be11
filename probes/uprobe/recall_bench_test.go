package uprobe

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/recall"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
)

// BenchmarkRecall measures the processor time of a call that is recorded for RECALL, beside
// one that becomes rows of function_call, and beside an empty program that is run as often:
// at the entry and the return.
func BenchmarkRecall(b *testing.B) {
	testenv.NeedUprobes(b)
	target := benchTarget(b)
	needFeature(b, attach.Session.Needs())
	b.Run("unprobed", func(b *testing.B) {
		measureCalls(b, target, func(*running) func() *testplan.Discard { return func() *testplan.Discard { return nil } })
	})
	b.Run("empty program", func(b *testing.B) {
		measureCalls(b, target, emptyProgram(b, target, attach.TypeSession))
	})
	// What is the least that any recorder does, a step more each time.
	for n, name := range leastSteps {
		b.Run(name, func(b *testing.B) {
			measureCalls(b, target, ownProgram(b, target, attach.TypeSession, leastRecorder(b, n+1)))
		})
	}
	for _, name := range []string{"function_call", "recorded"} {
		b.Run(name, func(b *testing.B) {
			measureCalls(b, target, func(r *running) func() *testplan.Discard {
				spec := testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("pushes"), "timestamp", "tid", "event", "function_name", "depth")
				o := probes.Options{}
				var set *recall.Set
				if name == "recorded" {
					var err error
					if set, err = recall.New(64<<20, int64(time.Second), clock.Offset()); err != nil {
						b.Fatal(err)
					}
					spec.Settings = plan.Settings{Recall: time.Second}
					o.Record = set
				}
				src, err := provider(b, Options{}).Prepare(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				d := &testplan.Discard{Ended: make(chan struct{})}
				if err := src.Start(b.Context(), d, o); err != nil {
					b.Fatal(err)
				}
				return func() *testplan.Discard { <-d.Ended; src.Stop(); set.Close(); return d }
			})
		})
	}
}

// leastSteps are the steps of leastRecorder.
var leastSteps = []string{"time", "time and thread", "time and thread, written"}

// leastRecorder returns the first steps of a program that reads the time, finds the memory of the
// thread, and writes an event of five words to a ring of 4,096 there. It knows neither targets nor
// conditions, nor which entry a return belongs to.
func leastRecorder(b *testing.B, steps int) asm.Instructions {
	const words, events = 5, 4096
	u64, i32 := &btf.Int{Name: "u64", Size: 8}, &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	create := func(spec *ebpf.MapSpec) *ebpf.Map {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { m.Close() })
		return m
	}
	threads := create(&ebpf.MapSpec{Type: ebpf.TaskStorage, KeySize: 4, ValueSize: 8, Flags: unix.BPF_F_NO_PREALLOC, Key: i32, Value: u64})
	rings := create(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8 * words * events, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	program := asm.Instructions{asm.FnKtimeGetBootNs.Call(), asm.Mov.Reg(asm.R7, asm.R0)}
	if steps > 1 {
		program = append(program,
			asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R2, asm.R0),
			asm.LoadMapPtr(asm.R1, threads.FD()), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 1), // BPF_LOCAL_STORAGE_GET_F_CREATE
			asm.FnTaskStorageGet.Call(), asm.JEq.Imm(asm.R0, 0, "out"), asm.Mov.Reg(asm.R8, asm.R0))
	}
	if steps > 2 {
		program = append(program,
			asm.StoreImm(asm.RFP, -4, 0, asm.Word), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, rings.FD()), asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "out"),
			asm.LoadMem(asm.R1, asm.R8, 0, asm.DWord), asm.Mov.Reg(asm.R2, asm.R1),
			asm.And.Imm(asm.R2, events-1), asm.Mul.Imm(asm.R2, 8*words), asm.Add.Reg(asm.R0, asm.R2))
		for w := range words {
			program = append(program, asm.StoreMem(asm.R0, int16(8*w), asm.R7, asm.DWord))
		}
		program = append(program, asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R8, 0, asm.R1, asm.DWord))
	}
	return program
}
