package uprobe

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// Where a function is entered and left by the same instruction, its two probes are at
// one site, and the entry's must run first. Otherwise each call would seem to last until
// the next.
func TestEnteredAndLeftAtOneInstruction(t *testing.T) {
	testenv.NeedUprobes(t)
	const calls, apart = 20, 2 * time.Millisecond
	target := testenv.CompileCText(t, prelude+`
void returns(void), jumps(void), jumps_on(void), lands(void), pads(void), late(void);
asm(".text\n"
    ".type returns, @function\nreturns: .cfi_startproc\n ret\n.cfi_endproc\n.size returns, .-returns\n"
    ".type jumps, @function\njumps: .cfi_startproc\n jmp returns\n.cfi_endproc\n.size jumps, .-jumps\n"
    ".type jumps_on, @function\njumps_on: .cfi_startproc\n jmp jumps\n.cfi_endproc\n.size jumps_on, .-jumps_on\n"
    ".type lands, @function\nlands: .cfi_startproc\n endbr64\n ret\n.cfi_endproc\n.size lands, .-lands\n"
    /* Its nop is the cheapest place for both; in late the other nop is cheaper for the entry. */
    ".type pads, @function\npads: .cfi_startproc\n endbr64\n nop\n xor %edx, %edx\n ret\n.cfi_endproc\n.size pads, .-pads\n"
    ".type late, @function\nlate: .cfi_startproc\n endbr64\n nop\n .byte 0x0f, 0x1f, 0x44, 0, 0\n ret\n.cfi_endproc\n.size late, .-late\n");
int main(void) {
	ready();
	for (int i = 0; i < 20; i++) {
		returns(); jumps(); jumps_on(); lands(); pads(); late();
		usleep(2000);
	}
}`, "-O1")
	want := map[string]int{"returns": 3 * calls, "jumps": 2 * calls, "jumps_on": calls, "lands": calls, "pads": calls}
	for _, links := range []string{"multi", "perf"} {
		for _, col := range []string{"retval", "depth"} {
			t.Run(links+" "+col, func(t *testing.T) {
				r := run(t, target)
				p := provider(t, Options{Links: links})
				spec := byExits(catalog.FunctionDuration, r.target(), testplan.Named("returns", "jumps", "jumps_on", "lands", "pads", "late"), "function_name", "duration", col)
				src, got := start(t, p, spec)
				probes := map[uint64]int{}
				shared := 0
				for _, s := range src.Info().Sites {
					if probes[s.Address]++; probes[s.Address] == 2 {
						shared++
					}
				}
				if shared < 4 { // all but lands
					t.Errorf("%d functions have both probes at one instruction", shared)
				}
				want := maps.Clone(want)
				if n := strings.Join(src.Info().Notices, "; "); !strings.Contains(n, "late (may leave before it comes to the instruction that counts its calls)") {
					want["late"] = calls // if the kernel treats both nops alike
				}
				r.finish(success)
				got.wait(t)
				if diff := cmp.Diff(want, tally(got.strings("function_name"))); diff != "" {
					t.Error(diff)
				}
				if len(got.counts)+len(got.lost) > 0 {
					t.Errorf("counts %v, lost %v", got.counts, got.lost)
				}
				// Some of them may have been interrupted.
				durations, long := got.ints("duration"), 0
				for _, d := range durations {
					if d > int64(apart) {
						long++
					}
				}
				if long > len(durations)/4 {
					t.Errorf("%d of %d calls seem to last until the next", long, len(durations))
				}
			})
		}
	}
}
