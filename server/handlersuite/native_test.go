package handlersuite

import (
	"os/exec"
	"testing"

	"endoscope/probes/testenv"
)

// programs are the programs of the suite.
var programs = []program{
	{
		name: "redis", start: startRedis,
		// This load does not trigger processEventsWhileBlocked, acceptTcpHandler and
		// similar handlers.
		want: []string{"readQueryFromClient", "serverCron", "beforeSleep"},
		also: []string{"sendReplyToClient", "acceptTcpHandler", "afterSleep", "handleClientsWithPendingWrites"},
	},
	{
		name: "PostgreSQL backend", start: startPostgres, rename: map[string]func(*testing.T, int) string{"exec_simple_query": execSimpleQuery},
		want: []string{"exec_simple_query"},
		also: []string{"finish_xact_command", "start_xact_command", "ProcessClientReadInterrupt"},
	},
	{
		name: "C, four loops", start: func(t *testing.T) (int, []string) {
			return testenv.Run(t, exec.Command(testenv.CompileC(t, "testdata/loops.c", "-O1", "-pthread", "-fno-optimize-sibling-calls"))), nil
		},
		want: []string{"process_message", "compress_job", "index_job", "on_event", "by_size", "on_signal", "set_up"},
	},
	{
		name: "C++", start: func(t *testing.T) (int, []string) {
			return testenv.Run(t, exec.Command(testenv.CompileC(t, "testdata/queue.cc", "-O1", "-pthread", "-fno-optimize-sibling-calls"))), nil
		},
		want: []string{"Server::on_login", "Server::on_query", "Resize::execute", "Encode::execute", "on_timer"},
	},
	{
		name: "Go", start: func(t *testing.T) (int, []string) {
			return testenv.Run(t, exec.Command(testenv.CompileGo(t, "testdata/goserver"))), nil
		},
		want: []string{"main.process", "main.handleMessage", "main.(*hub).onCommand", "main.(*hub).onTick", "main.hello"},
	},
}

// execSimpleQuery returns the function that runs a statement. In a stripped program
// it has no name, and is the last function before PostgresMain.
func execSimpleQuery(t *testing.T, pid int) string {
	t.Helper()
	before := ""
	for _, name := range functionsOf(t, pid) {
		if name == "exec_simple_query" {
			return name
		}
		if name == "PostgresMain" {
			return before
		}
		before = name
	}
	t.Fatal("postgres has no PostgresMain")
	return ""
}

func startRedis(t *testing.T) (int, []string) { return testenv.BusyRedis(t), nil }

func startPostgres(t *testing.T) (int, []string) {
	// At full speed reading a statement is not always waiting, for more than 99 % of the time.
	_, backend := testenv.BusyPostgres(t, "--rate", "1500")
	return backend, nil
}
