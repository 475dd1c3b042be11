package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// BenchmarkMemory is the memory of the command while one query runs, in MB:
// resident when it has run for a while, and at most. 33 MB of it are the ring buffer, which
// is mapped twice. node is a file of 100 MB.
//
//	go test -run '^$' -bench Memory -benchtime 1x ./client/cmd/endoscope
func BenchmarkMemory(b *testing.B) {
	testenv.NeedUprobes(b)
	command := testenv.Command(b, ".")
	for _, target := range []struct{ program, function string }{{"postgres", "pg_parse_query"}, {"node", "uv_run"}} {
		b.Run(target.program, func(b *testing.B) {
			exe := testenv.NeedProgram(b, target.program)
			for b.Loop() {
				cmd := exec.Command(command, "--exe", exe, "-c",
					fmt.Sprintf("SELECT COUNT(*) FROM function_start WHERE function_name = '%s' FOR 2s", target.function))
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				time.Sleep(1500 * time.Millisecond) // of its 2 s
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
				if err != nil {
					b.Fatal(err)
				}
				for unit, field := range map[string]string{"resident-MB": "VmRSS", "most-MB": "VmHWM"} {
					kb, _ := strconv.ParseFloat(string(regexp.MustCompile(field + `:\s+(\d+)`).FindSubmatch(status)[1]), 64)
					b.ReportMetric(kb/1024, unit)
				}
				if err := cmd.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
