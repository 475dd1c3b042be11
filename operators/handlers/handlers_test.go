package handlers

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Figure 1's trie has the handlers that figure 3 lists first. finishCycle is
// there beside them: between two waits the loop calls it as it calls the others.
// (Figure 3 names the packages in full. In figure 1 as printed the ends of some
// lines are missing, which were zeros.)
func TestFigures(t *testing.T) {
	f, err := os.Open("testdata/figure1.xml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trie, err := readXML(f)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := WriteHandlers(&got, trie.Analyse(paper)); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/figure3.xml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
	// What is written is read as the same.
	var text bytes.Buffer
	if err := trie.WriteXML(&text); err != nil {
		t.Fatal(err)
	}
	again, err := readXML(&text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(outline(trie), outline(again)); diff != "" {
		t.Error(diff)
	}
	if _, err := readXML(strings.NewReader("<REACTIONS>")); err == nil {
		t.Error("half a file is read without an error")
	}
}

// paper holds the paper's numbers (section 5), found with Java programs, whose loops
// consist of a call that waits.
var paper = Settings{MinSamples: 10, MinChildSamples: 40, MinShare: 0.0001, WaitRatio: 0.99, WaitShare: 0.01, IORatio: 0.999, IOShare: 0.05, RunRatio: 0.90, OutputRatio: 1}

// readXML reads a trie in the format of figure 1.
func readXML(r io.Reader) (*Trie, error) {
	var x xmlReactions
	if err := xml.NewDecoder(r).Decode(&x); err != nil {
		return nil, fmt.Errorf("no trie in XML: %w", err)
	}
	t := &Trie{Samples: x.Total, callbacks: map[Name]uint64{}}
	for _, c := range x.Callbacks {
		t.callbacks[Name{Function: c.User}] += c.Stack
	}
	for i := range x.Roots {
		readNode(t, &t.root, &x.Roots[i])
	}
	return t, nil
}

func readNode(t *Trie, parent *Node, x *xmlNode) {
	name := x.Method
	if x.Class != "" {
		name = x.Class + "@" + x.Method
	}
	n := parent.child(t, Name{Function: name})
	n.Own.add(Counts{Run: x.Run, Wait: x.Wait, IO: x.IO})
	for i := range x.Children {
		readNode(t, n, &x.Children[i])
	}
}

// stack makes one of functions, leaf first; the system's begin with '-'.
func stack(functions string) []Frame {
	var fs []Frame
	for _, f := range strings.Fields(functions) {
		name, system := strings.CutPrefix(f, "-")
		fs = append(fs, Frame{Function: name, System: system})
	}
	return fs
}

// samples are stacks with how often they are seen.
type samples []struct {
	stack string
	state State
	n     int
}

func (ss samples) trie() *Trie {
	t := &Trie{}
	for _, s := range ss {
		for range s.n {
			t.Add(stack(s.stack), s.state)
		}
	}
	return t
}

// The four patterns of figure 2, and what is none.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		name string
		in   samples
		want string
	}{
		{"W1: a function waits and calls the handler", samples{
			{"-epoll_wait loop main", Wait, 1000}, {"handle loop main", Run, 50}, {"-write handle loop main", IO, 10},
		}, "EVENT handle NODE_WAIT 60"},
		{"W1: handlers some of which do output", samples{
			{"-epoll_wait loop main", Wait, 900}, {"handle loop main", Run, 50}, {"-write log loop main", IO, 200},
		}, "EVENT handle NODE_WAIT 50, EVENT log NODE_WAIT 200"},
		{"W2: a function returns the next event", samples{
			{"-futex take loop main", Wait, 1000}, {"handle loop main", Run, 50},
		}, "EVENT handle NODE_WAIT 50"},
		{"W2: by way of others", samples{
			{"-futex park poll take loop main", Wait, 1000}, {"deep handle loop main", Run, 50},
		}, "EVENT handle NODE_WAIT 50"},
		{"I1: a function reads and calls the handler", samples{
			{"-read loop main", IO, 1000}, {"handle loop main", Run, 50},
		}, "EVENT handle NODE_IO 50"},
		{"I2: a function reads the next message", samples{
			{"-read next loop main", IO, 1000}, {"handle loop main", Run, 50},
		}, "EVENT handle NODE_IO 50"},
		{"threads that never wait", samples{{"work main", Run, 1000}, {"other main", Run, 1000}}, ""},
		{"a handler seen too rarely", samples{{"-epoll_wait loop main", Wait, 1000}, {"handle loop main", Run, 9}}, ""},
		{"waits for a lock", samples{{"-futex loop main", Blocked, 1000}, {"handle loop main", Run, 50}}, ""},
		{"a look at the clock is no handler", samples{
			{"-epoll_wait loop main", Wait, 1000}, {"Clock.now loop main", Run, 50}, {"handle loop main", Run, 50},
		}, "EVENT handle NODE_WAIT 50"},
		{"a callback", samples{
			{"-epoll_wait -uv_run main", Wait, 1000}, {"on_read -uv_run main", Run, 50},
		}, "EVENT on_read NODE_WAIT 50"},
		{"a callback that no event brings", samples{{"by_price -qsort sort main", Run, 50}}, "CALLBACK by_price  50"},
		{"a thread pool of the system's", samples{
			{"-park -Pool.next -Pool.run -java.lang.Thread.run", Wait, 1000}, {"deep Job.run -Task.run -Pool.run -java.lang.Thread.run", Run, 50},
		}, "EVENT Job.run NODE_WAIT 50"},
		{"a thread pool's lambda", samples{
			{"-park -Pool.next -Pool.run", Wait, 1000}, {"compress Main.lambda$main$0 -Task.run -Pool.run", Run, 50},
		}, "EVENT compress NODE_WAIT 50"},
		{"a loop that looks at what has come", samples{
			{"-epoll_wait loop main", Wait, 80}, {"loop main", Run, 20}, {"handle loop main", Run, 500},
		}, "EVENT handle NODE_WAIT 500"},
		{"what is written does not bring events", samples{
			{"-read next loop main", IO, 1000}, {"handle loop main", Run, 50}, {"-write answer loop main", Output, 50},
		}, "EVENT handle NODE_IO 50"},
		{"a function writes what others have made", samples{
			{"-recv read loop main", Wait, 1000}, {"execute sub_12 loop main", Run, 300}, {"-send flush sub_34 loop main", Output, 60}, {"flush sub_34 loop main", Run, 9},
		}, "EVENT execute NODE_WAIT 300"},
		{"a handler that has others write", samples{
			{"-epoll_wait loop main", Wait, 1000}, {"-send flush answer loop main", Output, 56}, {"answer loop main", Run, 3},
		}, "EVENT answer NODE_WAIT 59"},
		{"a handler that writes its results", samples{
			{"-epoll_wait loop main", Wait, 1000}, {"-send handle loop main", Output, 60}, {"compute handle loop main", Run, 40},
		}, "EVENT handle NODE_WAIT 100"},
		{"threads' loops beside each other, of which one is busy", samples{
			{"-futex pop work -thread_of_library", Wait, 900}, {"job work -thread_of_library", Run, 50},
			{"-futex pop serve -thread_of_library", Wait, 100}, {"serve -thread_of_library", Run, 300}, {"query serve -thread_of_library", Run, 300},
		}, "EVENT job NODE_WAIT 50, EVENT query NODE_WAIT 300"},
		{"threads of a library's, of which one waits by itself and another is busy", samples{
			{"-nanosleep -std::thread::_State_impl<c>::_M_run -sub_d4 -start_thread -clone3", Wait, 900}, {"on_timer -std::thread::_State_impl<c>::_M_run -sub_d4 -start_thread -clone3", Run, 100},
			{"-futex pop serve -std::thread::_State_impl<b>::_M_run -sub_d4 -start_thread -clone3", Wait, 100}, {"serve -std::thread::_State_impl<b>::_M_run -sub_d4 -start_thread -clone3", Run, 300},
			{"query serve -std::thread::_State_impl<b>::_M_run -sub_d4 -start_thread -clone3", Run, 300},
		}, "EVENT on_timer NODE_WAIT 100, EVENT query NODE_WAIT 300"},
		{"one loop among many threads at rest", samples{
			{"-futex idle", Wait, 100_000}, {"-epoll_wait loop main", Wait, 100}, {"handle loop main", Run, 50},
		}, "EVENT handle NODE_WAIT 50"},
		{"a handler without a name that only calls another", samples{
			{"-epoll_wait loop main", Wait, 1000}, {"read_query sub_1234 loop main", Run, 50},
		}, "EVENT read_query NODE_WAIT 50"},
		{"a handler without a name", samples{
			{"-epoll_wait loop main", Wait, 1000}, {"parse sub_1234 loop main", Run, 50}, {"execute sub_1234 loop main", Run, 50},
		}, "EVENT sub_1234 NODE_WAIT 100"},
		{"an algorithm of a template calls nothing back", samples{{"by_price -std::sort<int*> main", Run, 50}, {"-epoll_wait main", Wait, 50}}, "EVENT by_price NODE_WAIT 50"},
		{"a function that is kept does", samples{{"job -std::_Function_handler<void()>::_M_invoke main", Run, 50}}, "CALLBACK job  50"},
		{"a thread's first function is no callback", samples{{"worker -start_thread -clone3", Run, 100}}, ""},
		{"a pool's is", samples{{"job -pool_worker -start_thread -clone3", Run, 100}}, "CALLBACK job  100"},
		{"called by reflection is not called back", samples{
			{"target -java.lang.reflect.Method.invoke caller", Run, 100}, {"-epoll_wait caller", Wait, 1000},
		}, "EVENT target NODE_WAIT 100"},
		{"called by output is not called back", samples{{"Message.toString -PrintStream.println log", Run, 100}}, ""},
		{"what the compiler made gives way to what it calls", samples{
			{"-park run", Wait, 1000}, {"handleDone Outer.access$100 run", Run, 50},
		}, "EVENT handleDone NODE_WAIT 50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, h := range c.in.trie().Analyse(Defaults) {
				got = append(got, fmt.Sprintf("%s %s %s %d", h.Kind, h.Function, h.Node, h.Samples))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("found %q, want %q", text, c.want)
			}
		})
	}
}

// Tries of parts of the samples, merged in any order, are the trie of all.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() ([]Frame, State) {
		var names []string
		for range 1 + random.IntN(5) {
			names = append(names, string(rune('a'+random.IntN(4))))
		}
		if random.IntN(3) == 0 {
			names = append([]string{"-sys"}, names...)
		}
		return stack(strings.Join(names, " ")), State(random.IntN(int(numStates)))
	}
	whole, parts := &Trie{}, []*Trie{{}, {}, {}}
	for range 5000 {
		s, state := draw()
		whole.Add(s, state)
		parts[random.IntN(len(parts))].Add(s, state)
	}
	random.Shuffle(len(parts), func(i, k int) { parts[i], parts[k] = parts[k], parts[i] })
	merged := &Trie{}
	for _, p := range parts {
		merged.Merge(p)
	}
	if diff := cmp.Diff(outline(whole), outline(merged)); diff != "" {
		t.Error(diff)
	}
	if whole.Nodes() != merged.Nodes() || whole.Samples != merged.Samples {
		t.Errorf("%d nodes, %d samples; merged %d and %d", whole.Nodes(), whole.Samples, merged.Nodes(), merged.Samples)
	}
}

// A trie does not grow beyond its limit. What is cold folds into its caller, and
// no sample is forgotten but those of threads' first functions.
func TestLimit(t *testing.T) {
	trie := &Trie{Limit: 100}
	for i := range 10_000 {
		trie.Add(stack(fmt.Sprintf("f%d mid main", i%1000)), Run)
		trie.Add(stack("hot main"), Run)
	}
	if trie.Nodes() > 100 || trie.Folded == 0 {
		t.Errorf("%d nodes, %d samples folded", trie.Nodes(), trie.Folded)
	}
	a := analysis{subtree: map[*Node]Counts{}}
	if all := a.sum(&trie.root); all.Total() != 20_000 {
		t.Errorf("%d samples are left of 20,000", all.Total())
	}
	if !slices.ContainsFunc(trie.Roots()[0].Children(), func(n *Node) bool { return n.Name.Function == "hot" && n.Own.Total() == 10_000 }) {
		t.Error("what is hot is gone")
	}
}

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		n, total uint64
		want     string
	}{{0, 0, "0.000"}, {10, 10, "0.722"}, {1000, 1000, "0.996"}, {50, 100, "0.404"}, {0, 10, "0.000"}} {
		if got := fmt.Sprintf("%.3f", wilson(c.n, c.total)); got != c.want {
			t.Errorf("of %d of %d it is %s, want %s", c.n, c.total, got, c.want)
		}
	}
}

// outline is a trie as text.
func outline(t *Trie) string {
	var b strings.Builder
	var write func(n *Node, depth int)
	write = func(n *Node, depth int) {
		fmt.Fprintf(&b, "%*s%s %v\n", 2*depth, "", n.Name.Function, n.Own)
		for _, c := range n.Children() {
			write(c, depth+1)
		}
	}
	for _, n := range t.Roots() {
		write(n, 0)
	}
	for _, h := range slices.Sorted(func(yield func(string) bool) {
		for name, n := range t.callbacks {
			if !yield(fmt.Sprintf("callback %s %d", name.Function, n)) {
				return
			}
		}
	}) {
		fmt.Fprintln(&b, h)
	}
	return b.String()
}
