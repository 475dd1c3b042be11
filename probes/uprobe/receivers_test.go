package uprobe

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// objectsHeader declares classes, each of whose methods records its name, the class of
// the object according to C++, and its address.
const objectsHeader = `
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <new>
#include <string>
#include <typeinfo>
#define METHOD __attribute__((noinline, noclone))
extern void note(const char *method, const std::type_info &type, const void *self);
#define NOTE(method) note(method, typeid(*this), this)
struct Shape {
	METHOD Shape() { NOTE("Shape::Shape"); }
	METHOD virtual ~Shape() { NOTE("Shape::~Shape"); }
	METHOD virtual long area() { NOTE("Shape::area"); return 1; }
	METHOD long scaled(long n) { NOTE("Shape::scaled"); return n; }
	long pad = 7;
};
`

const objectsProgram = objectsHeader + `
#include <dlfcn.h>
static std::string told;
METHOD void note(const char *method, const std::type_info &type, const void *self) {
	char line[200], *name = abi::__cxa_demangle(type.name(), 0, 0, 0);
	snprintf(line, sizeof line, "%s\t%s\t%lu\n", method, name, (unsigned long)self);
	free(name);
	told += line;
}
struct Round : Shape { METHOD Round() { NOTE("Round::Round"); } METHOD long area() override { NOTE("Round::area"); return 2; } };
struct Circle : Round { METHOD ~Circle() override { NOTE("Circle::~Circle"); } };
struct Named {
	METHOD virtual const char *name() { NOTE("Named::name"); return "n"; }
	METHOD long length() { NOTE("Named::length"); return 1; }
	virtual ~Named() {}
};
struct Big { long words[8]; };
struct Label : Shape, Named {
	METHOD const char *name() override { NOTE("Label::name"); return "l"; }
	METHOD Big big(long n) { NOTE("Label::big"); Big b = {}; b.words[0] = n; return b; } // this comes second
};
struct Base { METHOD virtual int v() { NOTE("Base::v"); return 1; } long b = 1; };
struct Left : virtual Base { METHOD Left() { start(); } METHOD void start() { NOTE("Left::start"); v(); } };
struct Right : virtual Base { METHOD virtual int r() { NOTE("Right::r"); return 3; } };
struct Diamond : Left, Right { METHOD int v() override { NOTE("Diamond::v"); return 4; } };
struct Plain { METHOD long get() { return x; } long x = 5; };
METHOD long plain(Plain *p) { return p->get(); }
namespace shapes { template <class T> struct Box : Shape { METHOD T opened(T t) { NOTE("shapes::Box<int>::opened"); return t; } }; }
int main(int argc, char **argv) {
	puts("ready"); fflush(stdout);
	char b[16];
	if (!fgets(b, sizeof b, stdin)) return 9;
	for (long i = 0; i < 20; i++) {
		Shape *all[] = {new Shape, new Round, new Circle, new Label};
		for (Shape *s : all) { s->area(); s->scaled(i); }
		Label *l = (Label *)all[3]; Named *n = l;
		n->length(); l->name(); l->big(i);
		for (Shape *s : all) delete s;
		// At the address of an object that was of another class a moment ago.
		alignas(16) char room[256];
		(new (room) Circle)->~Circle();
		Shape *again = new (room) Shape; again->scaled(i); again->~Shape();
		Diamond d; d.v(); Base *base = &d; base->v(); d.r();
		shapes::Box<int> box; box.opened(3); box.scaled(4);
		Plain p; plain(&p);
	}
	if (argc > 1) {
		void *lib = dlopen(argv[1], RTLD_NOW);
		if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 8; }
		Shape *s = ((Shape * (*)()) dlsym(lib, "make"))();
		for (long i = 0; i < 20; i++) s->scaled(i);
		puts("loaded"); fflush(stdout);
		if (!fgets(b, sizeof b, stdin)) return 7;
	}
	fputs(told.c_str(), stdout);
}
`

const objectsLibrary = objectsHeader + `
struct Middle : Shape {};
struct Loaded : Middle { METHOD long area() override { return 9; } };
extern "C" Shape *make() { return new Loaded; }
`

// observedMethods are the methods whose calls the program records.
var observedMethods = []string{
	"Shape::Shape", "Shape::~Shape", "Shape::area", "Shape::scaled", "Round::Round", "Round::area", "Circle::~Circle", "Named::name", "Named::length",
	"Label::name", "Label::big", "Base::v", "Left::start", "Right::r", "Diamond::v", "shapes::Box<int>::opened",
}

// noted parses the program's output: method, class and address of each call.
func noted(t *testing.T, lines []string) (out [][3]string) {
	t.Helper()
	for _, line := range lines {
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			t.Fatalf("the program said %q", line)
		}
		out = append(out, [3]string(f))
	}
	return out
}

// calledOn returns the rows' functions, receivers' classes and addresses.
func calledOn(got *record) (out [][3]string) {
	names, classes, objects := got.strings("function_name"), got.strings("receiver_class"), got.ints("receiver")
	for i := range names {
		out = append(out, [3]string{names[i], classes[i], strconv.FormatInt(objects[i], 10)})
	}
	return inOrder(out)
}

// inOrder sorts calls, since an object is recorded after its subobjects. Where a
// destructor calls another of the same name, as deleting destructors do, it keeps one.
func inOrder(calls [][3]string) [][3]string {
	var out [][3]string
	for i, c := range calls {
		if i > 0 && c == calls[i-1] && strings.Contains(c[0], "~") {
			continue
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b [3]string) int { return strings.Compare(strings.Join(a[:], "\t"), strings.Join(b[:], "\t")) })
	return out
}

// The class of each call's object agrees with the program's own result: for objects of
// derived classes, with several bases, with virtual bases, under construction and
// destruction, at reused addresses, and of a library loaded while the program runs.
func TestReceivers(t *testing.T) {
	testenv.NeedUprobes(t)
	header := filepath.Join(t.TempDir(), "library.cc")
	if err := os.WriteFile(header, []byte(objectsLibrary), 0o644); err != nil {
		t.Fatal(err)
	}
	library := testenv.CompileC(t, header, "-O1", "-shared", "-fPIC")
	for _, flags := range [][]string{{"-O0", "-pie", "-fPIE"}, {"-O2", "-pie", "-fPIE"}, {"-O1", "-no-pie", "-fno-pie"}, {"-O2", "-static"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			var args []string
			if flags[len(flags)-1] != "-static" {
				args = []string{library}
			}
			target := compileCC(t, objectsProgram, append(flags, "-rdynamic")...)
			p := provider(t, Options{})
			r := run(t, target, args...)
			_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named(observedMethods...), "timestamp", "function_name", "receiver_class", "receiver", "receiver_lineage", "class_lineage", "lookup_distance"))
			if args != nil {
				r.step()
				if line := r.line(); line != "loaded" {
					t.Fatalf("the program said %q", line)
				}
				// The mappings of a process that has ended are unknown.
				testenv.Until(t, "the loaded class is seen", func() bool { return got.has("receiver_class", "Loaded") })
			}
			want := noted(t, r.finish(success))
			got.wait(t)
			if diff := cmp.Diff(inOrder(want), calledOn(got)); diff != "" {
				t.Errorf("- as the program says, + as it was observed\n%s", diff)
			}
			lineages := map[string]string{}
			above := got.strings("receiver_lineage")
			for i, class := range got.strings("receiver_class") {
				lineages[class] = above[i]
			}
			wantLineages := map[string]string{
				"Shape": "Shape", "Round": "Round < Shape", "Circle": "Circle < Round < Shape", "Label": "Label < Shape; Label < Named", "Named": "Named",
				"Left": "Left < Base", "Diamond": "Diamond < Left < Base; Diamond < Right < Base", "shapes::Box<int>": "shapes::Box<int> < Shape",
			}
			delete(wantLineages, "Named")
			if args != nil {
				wantLineages["Middle"], wantLineages["Loaded"] = "Middle < Shape", "Loaded < Middle < Shape"
				delete(wantLineages, "Middle")
			}
			if diff := cmp.Diff(wantLineages, lineages); diff != "" {
				t.Error(diff)
			}
			distances := map[string]int64{}
			steps, classes := got.ints("lookup_distance"), got.strings("receiver_class")
			for i, name := range got.strings("function_name") {
				distances[name+" of "+classes[i]] = steps[i]
			}
			for call, distance := range map[string]int64{
				"Shape::scaled of Shape": 0, "Shape::scaled of Round": 1, "Shape::scaled of Circle": 2, "Round::area of Circle": 1, "Label::big of Label": 0,
				"Named::length of Label": 1, "Right::r of Diamond": 1,
			} {
				if d, ok := distances[call]; !ok || d != distance {
					t.Errorf("%s takes %d steps, want %d", call, d, distance)
				}
			}
		})
	}
}

// At returns the object and its class are those at the call's entry.
func TestReceiversAtReturns(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileCC(t, objectsProgram, "-O1")
	var methods []string
	for _, m := range observedMethods {
		if !strings.Contains(m, "~") { // destructors exist twice by that name
			methods = append(methods, m)
		}
	}
	for _, stream := range []string{catalog.FunctionEnd, catalog.FunctionDuration, catalog.FunctionCall} {
		t.Run(stream, func(t *testing.T) {
			p := provider(t, Options{})
			r := run(t, target)
			_, got := start(t, p, testplan.Acquire(stream, r.target(), testplan.Named(methods...), "timestamp", "function_name", "receiver_class", "receiver"))
			var want [][3]string
			for _, call := range noted(t, r.finish(success)) {
				if slices.Contains(methods, call[0]) {
					want = append(want, call)
					if stream == catalog.FunctionCall {
						want = append(want, call)
					}
				}
			}
			if diff := cmp.Diff(inOrder(want), calledOn(got.wait(t))); diff != "" || len(want) == 0 {
				t.Errorf("- as the program says, + as it was observed\n%s", diff)
			}
		})
	}
}

// Without symbols there are no names; the classes are still reported.
func TestReceiversStripped(t *testing.T) {
	testenv.NeedUprobes(t)
	strip := testenv.NeedProgram(t, "strip")
	for _, flags := range [][]string{{"-O1", "-pie", "-fPIE"}, {"-O1", "-no-pie", "-fno-pie"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			target := compileCC(t, objectsProgram, flags...)
			names := map[string]string{} // by the name without symbols
			var synthetic []string
			for method, addr := range methodAddresses(t, target, "_ZN5Shape6scaledEl", "_ZN5Shape4areaEv", "_ZN5Round4areaEv", "_ZN5Named6lengthEv", "_ZN7Diamond1vEv", "_ZN5Right1rEv") {
				name := fmt.Sprintf("sub_%x", addr)
				names[name] = method
				synthetic = append(synthetic, name)
			}
			stripped := filepath.Join(t.TempDir(), "stripped")
			if msg, err := exec.Command(strip, "-o", stripped, target).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, msg)
			}
			p := provider(t, Options{})
			r := run(t, stripped)
			_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named(synthetic...), "timestamp", "function_name", "receiver_class", "receiver"))
			var want [][3]string
			for _, call := range noted(t, r.finish(success)) {
				for _, method := range names {
					if call[0] == method {
						want = append(want, call)
					}
				}
			}
			rows := calledOn(got.wait(t))
			for i := range rows {
				rows[i][0] = names[rows[i][0]]
			}
			if diff := cmp.Diff(inOrder(want), inOrder(rows)); diff != "" || len(rows) == 0 {
				t.Errorf("- as the program says, + as it was observed\n%s", diff)
			}
		})
	}
}

// methodAddresses returns the addresses of methods, by their names without parameters.
func methodAddresses(t *testing.T, program string, mangled ...string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, s := range symbols {
		for _, m := range mangled {
			if s.Name == m {
				name, err := exec.Command("c++filt", "-p", m).Output()
				if err != nil {
					t.Fatal(err)
				}
				out[strings.TrimSpace(string(name))] = s.Value
			}
		}
	}
	if len(out) != len(mangled) {
		t.Fatalf("only %v are in the symbol table", out)
	}
	return out
}

// Receivers that are no objects, or have no virtual functions, have no class, and
// invalid pointers do no harm.
func TestReceiversOfNoClass(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileCC(t, prelude+`
#include <sys/mman.h>
struct Plain { NOINLINE long get(long n) { sink += n; return n; } };
struct Virtual { NOINLINE long get(long n) { sink += n; return n; } virtual ~Virtual() {} };
struct Pure { virtual void f() = 0; };
namespace space { NOINLINE long free_(void *p) { sink++; return p != 0; } }
NOINLINE long alone(void *p) { sink++; return p != 0; }
int main() {
	ready();
	Plain p; Virtual v;
	char *gone = (char *)mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static void *table[4] = {table, table, table, table};
	void *bad[] = {0, (void *)1, gone, (void *)-8, (void *)0x800000000000, (char *)main, table, (char *)&v + 1, (void *)"text"};
	for (long i = 0; i < 50; i++) {
		p.get(i); v.get(i); alone(&v); space::free_(&v);
		for (void *b : bad) ((Virtual *)b)->get(i);
	}
}
`, "-O1", "-fno-delete-null-pointer-checks")
	p := provider(t, Options{})
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("Plain::get", "Virtual::get", "alone", "space::free_"), "timestamp", "function_name", "receiver_class", "receiver", "lookup_distance", "arg0")
	_, got := start(t, p, spec)
	r.finish(success)
	counts := map[string]int{}
	for _, row := range got.wait(t).rows {
		name, class, object, distance, arg := row[1], row[2], row[3], row[4], row[5]
		counts[name.S+" of "+plan.FormatValue(class)]++
		if known := name.S != "alone"; object.IsNull == known || known && object.I != arg.I {
			t.Fatalf("the receiver of %s is %s, its argument %s", name.S, plan.FormatValue(object), plan.FormatValue(arg))
		}
		if distance.IsNull != class.IsNull {
			t.Fatalf("%s of %s has a distance of %s", name.S, plan.FormatValue(class), plan.FormatValue(distance))
		}
	}
	want := map[string]int{"Plain::get of null": 50, "Virtual::get of 'Virtual'": 50, "Virtual::get of null": 9 * 50, "alone of null": 50, "space::free_ of null": 50}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
}

// gdb, stopped in the same method, reports the same class of the object.
func TestReceiversGdb(t *testing.T) {
	testenv.NeedUprobes(t)
	gdb := testenv.NeedProgram(t, "gdb")
	target := compileCC(t, objectsProgram, "-O0", "-g")
	answer := filepath.Join(t.TempDir(), "answer") // no <<<: gdb uses sh where SHELL is not set
	if err := os.WriteFile(answer, []byte("go\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	commands := []string{"set breakpoint pending off", "set print object on", "set pagination off", "break Shape::scaled", "commands\nsilent\nwhatis this\ncontinue\nend", "run < " + answer}
	script := filepath.Join(t.TempDir(), "script.gdb")
	if err := os.WriteFile(script, []byte(strings.Join(commands, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(gdb, "-batch", "-nx", "-x", script, target).CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if _, class, ok := strings.Cut(line, "type = /* real type = "); ok {
			class, _, _ = strings.Cut(class, " * const */")
			want = append(want, class)
		}
	}
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("Shape::scaled"), "timestamp", "receiver_class"))
	r.finish(success)
	if diff := cmp.Diff(want, got.wait(t).strings("receiver_class")); diff != "" || len(want) < 100 {
		t.Errorf("%d calls in gdb, - as it says\n%s", len(want), diff)
	}
}

// Descriptions of functions before they run.
func TestMethods(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	target := testenv.CompileGo(t, "testdata/goprog")
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("main.%")), "timestamp", "function_name", "class", "receiver_class", "method_size", "is_native")
	_, got := start(t, p, spec)
	r.finish(success)
	for _, row := range got.wait(t).rows {
		if row[2].S != "" && row[3].S != row[2].S {
			t.Errorf("%s is called on %s", row[1].S, plan.FormatValue(row[3]))
		}
		if row[2].S == "" && !row[3].IsNull || row[4].I <= 0 || row[5] != types.Bool(false) {
			t.Errorf("%s is called on %s, has %s bytes, is native: %s", row[1].S, plan.FormatValue(row[3]), plan.FormatValue(row[4]), plan.FormatValue(row[5]))
		}
	}
	if len(got.rows) == 0 {
		t.Error("no rows")
	}
}
