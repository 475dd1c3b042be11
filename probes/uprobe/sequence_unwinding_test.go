package uprobe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/resolve"
)

// toldBy returns the sequences that a target has printed, as "thread EVENT f depth"
// lines.
func toldBy(lines []string) map[string][]string {
	out := map[string][]string{}
	for _, line := range lines {
		thread, event, _ := strings.Cut(line, " ")
		out[thread] = append(out[thread], event)
	}
	return out
}

// throwing is a C++ program that notes its own calls while it is observed: each
// of its functions has a Call, which a return and an exception both destroy.
const throwing = prelude + `
#include <exception>
#include <stdexcept>
#include <vector>
#include <string>
struct Note { const char *event, *name; int depth; };
static thread_local std::vector<Note> notes;
static thread_local int depth;
struct Call {
	const char *name;
	int uncaught = std::uncaught_exceptions();
	__attribute__((always_inline)) Call(const char *name) : name(name) { notes.push_back({"ENTER", name, depth++}); }
	__attribute__((always_inline)) ~Call() { notes.push_back({std::uncaught_exceptions() > uncaught ? "UNWIND" : "LEAVE", name, --depth}); }
};
#define CALL(name) Call call_(name)

NOINLINE long leaf(long n) { CALL("leaf"); sink += n; return n; }
struct Held {
	long n;
	NOINLINE Held(long n);
	NOINLINE ~Held();
};
Held::Held(long n) : n(n) { CALL("Held::Held"); sink += n; }
Held::~Held() { CALL("Held::~Held"); leaf(n); }

// What is not observed has larger frames than what is: calls that it makes lie
// further in than what was left.
NOINLINE long far(long n) { volatile char room[700]; room[n] = 1; return leaf(n) + room[n]; }
struct Room { long n; NOINLINE ~Room() { far(n); } };

// Three frames that an exception passes, of which one cleans up.
NOINLINE long thrower(long n) { CALL("thrower"); if (n % 3 == 0) throw n; if (n % 3 == 1) throw std::runtime_error("one"); return leaf(n); }
NOINLINE long holds(long n) { CALL("holds"); Held h(n); return thrower(n) + 1; }
NOINLINE long plain(long n) { CALL("plain"); Room room{n}; long r = holds(n); sink += r; return r; }
NOINLINE long caught(long n) { CALL("caught"); try { return plain(n); } catch (...) { return far(n) + leaf(n); } }
NOINLINE long some(long n) { CALL("some"); try { return plain(n); } catch (std::exception &e) { sink += e.what()[0]; return 1; } }
// Caught, and thrown again from a frame further out.
NOINLINE long again(long n) { CALL("again"); Held h(n); try { plain(n); } catch (...) { far(1); throw; } return leaf(n); }
NOINLINE long translated(long n) { CALL("translated"); try { again(n); } catch (long) { Held h(2); throw std::string("long"); } return n; }
NOINLINE long outermost(long n) { CALL("outermost"); try { some(n); translated(n); } catch (long m) { leaf(m); } catch (std::string &) { leaf(3); } catch (std::exception &) { leaf(4); } return n; }
// An exception that is thrown and caught while another unwinds.
struct Careful { long n; NOINLINE ~Careful(); };
Careful::~Careful() { CALL("Careful::~Careful"); caught(n); }
NOINLINE long careful(long n) { CALL("careful"); Careful c{n}; return thrower(n); }
NOINLINE long saved(long n) { CALL("saved"); std::exception_ptr p; try { careful(n); } catch (...) { p = std::current_exception(); } if (p) try { std::rethrow_exception(p); } catch (...) { leaf(5); } return n; }
NOINLINE long down(long n, long m) { CALL("down"); if (n == 0) return caught(m) + thrower(m); Held h(n); return down(n - 1, m) + 1; }
NOINLINE long deep(long n) { CALL("deep"); try { return down(2 + n, n); } catch (...) { return leaf(0); } }

static void *work(void *p) {
	const char *name = (const char *)p;
	pthread_setname_np(pthread_self(), name);
	unsigned seed = name[1];
	for (int i = 0; i < 80; i++) {
		long n = rand_r(&seed) % 12;
		switch (rand_r(&seed) % 5) {
		case 0: caught(n); break;
		case 1: try { some(n); } catch (long) {} break;
		case 2: outermost(n); break;
		case 3: saved(n); break;
		case 4: deep(n); break;
		}
	}
	leaf(0);
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&one);
	for (Note &n : notes) printf("%s %s %s %d\n", name, n.event, n.name, n.depth);
	fflush(stdout);
	pthread_mutex_unlock(&one);
	return 0;
}
int main() {
	ready();
	pthread_t t[3]; const char *names[] = { "w0", "w1", "w2" };
	for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, (void *)names[i]);
	for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
	work((void *)"w3");
}
`

// The sequence of each thread agrees with the one that the program records: for calls
// that exceptions pass, for destructors meanwhile, and for exceptions caught and thrown
// again.
func TestSequencesOfExceptions(t *testing.T) {
	testenv.NeedUprobes(t)
	names := []string{"leaf", "Held::Held", "Held::~Held", "thrower", "holds", "plain", "caught", "some", "again", "translated", "outermost",
		"Careful::~Careful", "careful", "saved", "down", "deep"}
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-Os", "-fno-omit-frame-pointer", "-fcf-protection", "-static-libgcc", "-static-libstdc++"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			target := compileCC(t, throwing, append(flags, "-pthread")...)
			p := provider(t, Options{})
			r := run(t, target)
			src, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(names...), sequenceColumns...))
			for _, s := range src.Info().Sites {
				if !strings.HasPrefix(s.Kind, resolve.KindExits) && s.Kind != resolve.KindExit && s.Kind != resolve.KindLandmark {
					t.Errorf("%s is observed by %s", s.Function, s.Kind)
				}
			}
			told := toldBy(r.finish(success))
			sameSequences(t, told, got.wait(t).sequences(t))
			events := tally(got.strings("event"))
			if events[decode.EventUnwind] < 500 || events[decode.EventLeave] < 1000 || events[decode.EventEnter] != events[decode.EventUnwind]+events[decode.EventLeave] || len(events) != 3 {
				t.Errorf("events %v", events)
			}
			if len(got.lost)+len(got.counts) > 0 {
				t.Errorf("lost %v, counts %v", got.lost, got.counts)
			}
		})
	}
}

// A tail call ends the call that makes it, and what it calls takes its place.
func TestSequencesOfTailCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long third(long n) { sink += n; return n; }
NOINLINE long second(long n) { sink++; if (n % 2) return 5; return third(n + 1); }
NOINLINE long first(long n) { sink++; return second(n + 1); }
NOINLINE long outer(long n) { long r = first(n); sink++; return r; }
long thunk(long);
__asm__(".text\n.globl thunk\n.type thunk,@function\nthunk: jmp third\n.size thunk,.-thunk\n");
int main(void) { ready(); outer(0); outer(1); thunk(1); return 0; }
`, "-O2", "-fcf-protection=none")
	for _, links := range []attach.Kind{attach.Multi, attach.Perf} {
		t.Run(links.String(), func(t *testing.T) {
			needFeature(t, links.Needs())
			p := provider(t, Options{Links: links.String()})
			r := run(t, target)
			_, got := start(t, p, byExits(catalog.FunctionCall, r.target(), testplan.Named("first", "second", "third", "outer", "thunk"), sequenceColumns...))
			r.finish(success)
			want := []string{
				"ENTER outer 0", "ENTER first 1", "LEAVE first 1", "ENTER second 1", "LEAVE second 1", "LEAVE outer 0",
				"ENTER outer 0", "ENTER first 1", "LEAVE first 1", "ENTER second 1", "LEAVE second 1", "ENTER third 1", "LEAVE third 1", "LEAVE outer 0",
				"ENTER thunk 0", "LEAVE thunk 0", "ENTER third 0", "LEAVE third 0",
			}
			if diff := cmp.Diff(want, got.wait(t).sequences(t)["target"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Threads that end during calls leave none open: pthread_exit, which runs cleanup
// handlers, and a program that is killed.
func TestSequencesEndWithTheirThreads(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE void cleanup(void *n) { sink++; }
NOINLINE long ends(long n) { sink++; pthread_exit((void *)n); }
NOINLINE long middle(long n) { long r; pthread_cleanup_push(cleanup, 0); r = ends(n) + 1; pthread_cleanup_pop(1); sink++; return r; }
NOINLINE long outer(long n) { long r = middle(n); sink++; return r; }
NOINLINE void killed(void) { sink++; kill(getpid(), SIGKILL); pause(); }
static void *work(void *name) { pthread_setname_np(pthread_self(), name); outer(1); return 0; }
int main(void) {
	ready();
	pthread_t t; pthread_create(&t, 0, work, "w0"); pthread_join(t, 0);
	killed();
}
`, "-O1", "-pthread", "-fno-optimize-sibling-calls", "-include", "signal.h", "-include", "pthread.h")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("cleanup", "ends", "middle", "outer", "killed"), sequenceColumns...))
		r.finish("signal: killed")
		want := map[string][]string{
			"w0": {
				"ENTER outer 0", "ENTER middle 1", "ENTER ends 2", "UNWIND ends 2",
				"ENTER cleanup 2", "LEAVE cleanup 2", "UNWIND middle 1", "UNWIND outer 0",
			},
			"target": {"ENTER killed 0", "UNWIND killed 0"},
		}
		if diff := cmp.Diff(want, got.wait(t).sequences(t)); diff != "" {
			t.Error(diff)
		}
	})
}
