package handlers

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Stacks of programs as they ran under load, written down by the suite of programs
// (endoscope/server/handlersuite, -record), and the functions that handle their events,
// known from their sources. Those of a stripped program that have no name are called by
// their address: sub_472280 is PostgreSQL's exec_simple_query. Two others, Java's
// Inbox.handle and Python's Service.on_readable, were hardly seen in these four seconds.
func TestRecorded(t *testing.T) {
	for file, want := range map[string]string{
		"c":        "EVENT by_size, EVENT compress_job, EVENT index_job, EVENT on_event, EVENT on_signal, EVENT process_message, EVENT set_up",
		"cpp":      "EVENT Encode::execute, EVENT Resize::execute, EVENT Server::on_login, EVENT Server::on_query, EVENT on_timer",
		"go":       "EVENT main.(*hub).onCommand, EVENT main.(*hub).onTick, EVENT main.handleMessage, EVENT main.hello, EVENT main.process",
		"java":     "CALLBACK app.Pool.flush, EVENT app.Pool$IndexJob.run, EVENT app.Pool$Pages.index, EVENT app.Pool.compress",
		"postgres": "EVENT sub_472280",
		"python":   "EVENT handle, EVENT process, EVENT resize",
		"redis":    "EVENT beforeSleep, EVENT readQueryFromClient, EVENT serverCron",
	} {
		t.Run(file, func(t *testing.T) {
			trie := readStacks(t, file)
			var got []string
			for _, h := range trie.Analyse(Defaults) {
				name, _, _ := strings.Cut(h.Function, "(Message const&)")
				got = append(got, fmt.Sprintf("%v %s", h.Kind, strings.TrimSuffix(name, "()")))
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("found %s\nwant  %s", text, want)
			}
		})
	}
}

// readStacks is the trie of a file of testdata/stacks: in each line how often a stack
// was seen, its thread's state and system call, and its functions, outermost first;
// those of the system begin with '-'.
func readStacks(t *testing.T, file string) *Trie {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata/stacks", file+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trie := &Trie{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var n int
		var state, syscall string
		if _, err := fmt.Sscan(lines.Text(), &n, &state, &syscall); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		var frames []Frame
		if text := strings.SplitN(lines.Text(), " ", 4)[3]; text != "" {
			for _, function := range slices.Backward(strings.Split(text, ";")) {
				name, system := strings.CutPrefix(function, "-")
				frames = append(frames, Frame{Function: name, System: system})
			}
		}
		for range n {
			trie.Add(frames, StateOf(state, syscall))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return trie
}
