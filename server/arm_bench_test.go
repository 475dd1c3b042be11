package server_test

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// BenchmarkArm is the time from a statement's text until its probes are
// attached, in the executable of PostgreSQL, of which no process runs: cold is
// an engine that has never seen the file (its pages are in memory) and has
// loaded no program; cached is the engine's next query. cpu-ms is the time of
// all processors together, which other work on the machine disturbs less.
//
//	go test -run '^$' -bench Arm -benchtime 20x ./server
func BenchmarkArm(b *testing.B) {
	testenv.NeedUprobes(b)
	o := wire.Options{Exe: testenv.NeedProgram(b, "postgres")}
	for _, q := range []struct{ name, query string }{
		{"one", "SELECT COUNT(*) FROM function_start WHERE function_name = 'pg_parse_query'"},
		{"one with returns", "SELECT COUNT(*), AVG(duration) FROM function_duration WHERE function_name = 'pg_parse_query'"},
		{"named", "SELECT function_name, COUNT(*) FROM function_start WHERE function_name NOT LIKE 'sub%' GROUP BY function_name"},
		{"named with returns", "SELECT function_name, AVG(duration) FROM function_duration WHERE function_name NOT LIKE 'sub%' GROUP BY function_name"},
	} {
		b.Run(q.name+"/cold", func(b *testing.B) {
			var m armed
			for b.Loop() {
				b.StopTimer()
				e, err := server.New(server.Options{})
				if err != nil {
					b.Fatal(err)
				}
				m.once(b, e, o, q.query)
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			m.report(b)
		})
		b.Run(q.name+"/cached", func(b *testing.B) {
			e, err := server.New(server.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			new(armed).once(b, e, o, q.query)
			var m armed
			for b.Loop() {
				m.once(b, e, o, q.query)
			}
			m.report(b)
		})
	}
}

// BenchmarkArmForChildren is the time from a statement's text until its probe is attached, and
// until it is detached, of a process: by its executable, and by its pid where children are
// counted or followed. The engine has read the file.
//
//	go test -run '^$' -bench ArmForChildren -benchtime 50x ./server
func BenchmarkArmForChildren(b *testing.B) {
	testenv.NeedUprobes(b)
	program := testenv.CompileCText(b, `
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void work(long n) { sink += n; }
int main(void) { for (;;) { work(1); pause(); } }
`, "-O1")
	pid := testenv.Run(b, exec.Command(program))
	e, err := server.New(server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	const query = "SELECT COUNT(*) FROM function_start WHERE function_name = 'work'"
	for _, c := range []struct {
		name   string
		target wire.Options
		set    string
	}{
		{"executable", wire.Options{Exe: program}, "SET follow = none"},
		{"counted", wire.Options{PID: pid}, "SET follow = none"},
		{"followed", wire.Options{PID: pid}, "SET follow = children"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := e.NewSession(context.Background(), c.target)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Execute(context.Background(), c.set); err != nil {
				b.Fatal(err)
			}
			var arm, cpu, detach time.Duration
			for b.Loop() {
				start, used := time.Now(), processorTime()
				r, err := s.Execute(context.Background(), query)
				if err != nil {
					b.Fatal(err)
				}
				arm, cpu = arm+time.Since(start), cpu+processorTime()-used
				start = time.Now()
				r.Stop()
				r.Close()
				detach += time.Since(start)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(arm.Seconds()*1000/float64(b.N), "ms")
			b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "cpu-ms")
			b.ReportMetric(detach.Seconds()*1000/float64(b.N), "detach-ms")
		})
	}
}

// armed adds up what it took to arm queries.
type armed struct{ wall, cpu time.Duration }

// once runs a statement and ends it.
func (m *armed) once(b *testing.B, e *server.Engine, o wire.Options, statement string) {
	s, err := e.NewSession(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	wall, cpu := time.Now(), processorTime()
	r, err := s.Execute(context.Background(), statement)
	if err != nil {
		b.Fatal(err)
	}
	m.wall += time.Since(wall)
	m.cpu += processorTime() - cpu
	r.Stop()
	r.Close()
	s.Close()
}

func (m *armed) report(b *testing.B) {
	b.ReportMetric(0, "ns/op") // of which detaching is most
	b.ReportMetric(m.wall.Seconds()*1000/float64(b.N), "ms")
	b.ReportMetric(m.cpu.Seconds()*1000/float64(b.N), "cpu-ms")
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
