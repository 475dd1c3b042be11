package server_test

import (
	"context"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// BenchmarkArm is the time from a statement's text until its probes are
// attached, in the executable of PostgreSQL, of which no process runs: cold is
// an engine that has never seen the file (its pages are in memory), and has
// loaded no program; cached is the engine's next query.
//
//	go test -run '^$' -bench Arm ./server
func BenchmarkArm(b *testing.B) {
	testenv.NeedUprobes(b)
	o := wire.Options{Exe: testenv.NeedProgram(b, "postgres")}
	for _, q := range []struct{ name, query string }{
		{"one function", "SELECT COUNT(*) FROM function_start WHERE function_name = 'pg_parse_query'"},
		{"one function, returns", "SELECT COUNT(*), AVG(duration) FROM function_duration WHERE function_name = 'pg_parse_query'"},
		{"all with names", "SELECT function_name, COUNT(*) FROM function_start WHERE function_name NOT LIKE 'sub%' GROUP BY function_name"},
		{"all with names, returns", "SELECT function_name, AVG(duration) FROM function_duration WHERE function_name NOT LIKE 'sub%' GROUP BY function_name"},
	} {
		b.Run(q.name+"/cold", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				e, err := server.New(server.Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				armOnce(b, e, o, q.query)
				b.StopTimer()
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
		b.Run(q.name+"/cached", func(b *testing.B) {
			e, err := server.New(server.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			armOnce(b, e, o, q.query)
			for b.Loop() {
				armOnce(b, e, o, q.query)
			}
		})
	}
}

// armOnce runs a statement and ends it; only the way to its probes is timed.
func armOnce(b *testing.B, e *server.Engine, o wire.Options, statement string) {
	s, err := e.NewSession(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.Execute(context.Background(), statement)
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	r.Stop()
	r.Close()
	s.Close()
	b.StartTimer()
}
