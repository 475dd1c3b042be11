package elf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
)

// classesProgram prints, for objects of many classes and for the types of their
// bases, what the C++ runtime knows: `object <address in the file of the
// virtual table> <class>` and `class <name>: <bases>`.
const classesProgram = `
#include <cxxabi.h>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <link.h>
#include <set>
#include <stdexcept>
#include <string>
#include <typeinfo>

struct Shape { virtual double area() { return 0; } virtual ~Shape() {} long pad = 1; };
struct Round : Shape { double area() override { return 3; } };
struct Circle final : Round { double area() override { return 4; } };
struct Named { virtual const char *name() { return "x"; } virtual ~Named() {} };
struct Plain { int x; };
struct Label : Plain, Shape, private Named { const char *name() override { return "y"; } };
struct Base { virtual int v() { return 1; } int b = 1; };
struct Left : virtual Base { int v() override { return 2; } };
struct Right : virtual Base { int w = 1; virtual int r() { return 3; } };
struct Diamond : Left, Right { int v() override { return 4; } };
namespace outer { namespace { struct Hidden : Shape {}; } template <class T, int n> struct Box : Shape { T t; }; }
struct Failure : std::runtime_error { Failure() : std::runtime_error("f") {} };

static unsigned long base;
static int first(dl_phdr_info *i, size_t, void *) { base = i->dlpi_addr; return 1; }
static std::string text(const std::type_info &t) {
	char *s = abi::__cxa_demangle(t.name(), 0, 0, 0);
	std::string r = s; free(s); return r;
}
static std::set<std::string> told;
static void tell(const std::type_info &t) {
	std::string line = "class\t" + text(t) + "\t";
	if (auto *s = dynamic_cast<const abi::__si_class_type_info *>(&t)) {
		line += text(*s->__base_type);
		tell(*s->__base_type);
	} else if (auto *m = dynamic_cast<const abi::__vmi_class_type_info *>(&t)) {
		for (unsigned i = 0; i < m->__base_count; i++) {
			line += (i ? ";" : "") + text(*m->__base_info[i].__base_type);
			tell(*m->__base_info[i].__base_type);
		}
	}
	if (told.insert(line).second) puts(line.c_str());
}
template <class T> void object(T *at) { // every virtual table that is pointed to in it
	tell(typeid(*at));
	printf("object\t%lu\t%s\n", *(unsigned long *)at - base, text(typeid(*at)).c_str());
}
int main() {
	dl_iterate_phdr(first, 0);
	Shape s; object(&s);
	Circle c; object(&c); object<Shape>(&c);
	Label l; object(&l); object<Shape>(&l); object((Named *)&l);
	Diamond d; object(&d); object<Left>(&d); object<Right>(&d); object<Base>(&d);
	outer::Hidden h; object(&h);
	outer::Box<outer::Box<int, 3>, -1> b; object(&b);
	Failure f; object(&f); object<std::exception>(&f);
	std::runtime_error e("x"); object(&e); // of a library: in the program there is a copy at most
	struct Local : Named {}; Local o; object(&o);
}
`

// TestClasses compares with the C++ runtime's view of the same objects, for
// several ways of building the program, with and without symbols.
func TestClasses(t *testing.T) {
	src := filepath.Join(t.TempDir(), "classes.cc")
	if err := os.WriteFile(src, []byte(classesProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, flags := range [][]string{
		{"-O1", "-pie", "-fPIE"},
		{"-O1", "-no-pie", "-fno-pie"},
		{"-O2", "-pie", "-fPIE", "-s"},
		{"-O2", "-no-pie", "-fno-pie", "-s"},
		{"-O1", "-static", "-s"},
		{"-O1", "-static-pie", "-fPIE"},
		{"-O1", "-pie", "-fPIE", "-Wl,-z,pack-relative-relocs", "-s"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			if i > 0 {
				testenv.Long(t)
			}
			t.Parallel()
			program := testenv.CompileC(t, src, flags...)
			out, err := exec.Command(program).Output()
			if err != nil {
				t.Fatal(err)
			}
			classes := openModule(t, program).Classes()
			objects := 0
			for line := range strings.Lines(string(out)) {
				f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
				switch f[0] {
				case "object":
					addr, err := strconv.ParseUint(f[1], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					k, ok := classes.At(addr)
					if !classes.Contains(addr) && strings.HasPrefix(f[2], "std::") {
						continue // in the library; the program has no copy
					}
					if !ok || k.Name != f[2] {
						t.Errorf("the virtual table at %#x is of %q, not %s", addr, k.Name, f[2])
					}
					if objects++; ok {
						if _, ok := classes.At(addr + 4); ok {
							t.Errorf("a misaligned address has a class")
						}
						if k, ok := classes.At(addr - 8); ok && k.Name != f[2] {
							t.Errorf("in front of the virtual table of %s is one of %s", f[2], k.Name)
						}
					}
				case "class":
					var bases []string
					if f[2] != "" {
						bases = strings.Split(f[2], ";")
					}
					k, ok := classes.Named(f[1])
					if strings.HasPrefix(f[1], "std::") && len(k.Bases) == 0 && !strings.Contains(strings.Join(flags, " "), "-static") {
						continue // the library knows its bases
					}
					if !ok || !slices.Equal(k.Bases, bases) {
						t.Errorf("class %s has the bases %q (known: %t), not %q", f[1], k.Bases, ok, bases)
					}
				}
			}
			if objects < 14 {
				t.Errorf("only %d objects were compared:\n%s", objects, out)
			}
		})
	}
}

// Without run-time type information classes are known by symbols, and not at
// all without those.
func TestClassesWithoutTypeInfo(t *testing.T) {
	const text = `
struct A { virtual int f() { return 1; } };
struct B : A { int f() override { return 2; } };
int main(int n, char **) { A *a = n > 1 ? new A : new B; return a->f() - 2; }
`
	tables := func(path string) (found []string) {
		c := openModule(t, path).Classes()
		for addr := c.within.Start &^ 7; addr < c.within.End; addr += 8 {
			if k, ok := c.At(addr); ok && len(k.Name) == 1 {
				found = append(found, k.Name)
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	if diff := cmp.Diff([]string{"A", "B"}, tables(testenv.CompileText(t, ".cc", text, "-O0", "-fno-rtti"))); diff != "" {
		t.Error(diff)
	}
	if found := tables(testenv.CompileText(t, ".cc", text, "-O0", "-fno-rtti", "-s")); len(found) > 0 {
		t.Errorf("classes %q are known without symbols and type information", found)
	}
}

// gdb names the same virtual tables.
func TestClassesGdb(t *testing.T) {
	testenv.Long(t)
	testenv.NeedProgram(t, "gdb")
	program := testenv.CompileText(t, ".cc", classesProgram, "-O0", "-no-pie", "-fno-pie")
	args := []string{"-batch", "-nx"}
	var tables []uint64
	for line := range strings.Lines(testenv.Output(t, "nm", "-C", program)) {
		if name, ok := strings.CutPrefix(line[min(len(line), 19):], "vtable for "); ok && !strings.HasPrefix(name, "__cxxabiv1") {
			addr, err := strconv.ParseUint(line[:16], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			tables = append(tables, addr+pointIn)
			args = append(args, "-ex", fmt.Sprintf("info symbol %#x", addr+pointIn))
		}
	}
	said := strings.Split(strings.TrimSpace(testenv.Output(t, "gdb", append(args, program)...)), "\n")
	if len(tables) < 12 || len(said) != len(tables) {
		t.Fatalf("gdb says %d things of %d tables", len(said), len(tables))
	}
	classes := openModule(t, program).Classes()
	for i, addr := range tables {
		if k, ok := classes.At(addr); !ok || !strings.HasPrefix(said[i], "vtable for "+k.Name+" + 16") {
			t.Errorf("at %#x: %q, gdb says %q", addr, k.Name, said[i])
		}
	}
}
