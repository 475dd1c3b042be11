package elf

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/testenv"
)

// chain has calls that are inlined into others, in two units.
var chain = map[string]string{
	"first.cpp": `
namespace shop {
struct Basket { long prices[8]; long total() const { long sum = 0; for (long p : prices) sum += p * 3 ^ sum; return sum; } };
}
long outer(const shop::Basket &, long);
static inline long doubled(const shop::Basket &b) { return b.total() * 2 + outer(b, 7); }
__attribute__((noinline)) long middle(const shop::Basket &b) { return doubled(b) % 11; }
int main(int argc, char **) { shop::Basket b{}; b.prices[2] = argc; return middle(b) == 3; }
`,
	"second.cpp": `
namespace shop { struct Basket { long prices[8]; }; }
namespace { inline long folded(long a, long b) { return a << 3 ^ b; } }
long outer(const shop::Basket &b, long n) {
	long all = 0;
	for (long i = 0; i < n; i++)
		all = folded(all, b.prices[i % 8]);
	return all;
}
`,
}

// buildChain compiles chain in a directory, to the program there.
func buildChain(t *testing.T, options ...string) (program string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range chain {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inDir(t, dir, slices.Concat([]string{"g++", "-O2", "-c", "first.cpp"}, options)...)
	inDir(t, dir, slices.Concat([]string{"g++", "-O2", "-c", "second.cpp"}, options)...)
	inDir(t, dir, "g++", "first.o", "second.o", "-o", "program")
	return filepath.Join(dir, "program")
}

func inDir(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(testenv.NeedProgram(t, args[0]), args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// callsIn lists the inlined calls of each instruction of a program's functions, with the base
// names of their files.
func callsIn(t *testing.T, program string) (list [][]Call) {
	t.Helper()
	m := openModule(t, program)
	source, err := m.Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main", "middle", "outer"} {
		f := m.Function(only(t, m, name))
		for addr := f.Addr; addr < f.Addr+f.Size; addr++ {
			calls, at := m.Calls(addr, source, true)
			calls = append(calls, Call{Position: at})
			for i := range calls {
				calls[i].File = filepath.Base(calls[i].File)
			}
			list = append(list, calls)
		}
	}
	if err := source.Err(); err != nil {
		t.Error(err)
	}
	return list
}

// The inlined calls of a program do not depend on where its debug information is.
func TestSource(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		t.Run(version, func(t *testing.T) {
			want := callsIn(t, buildChain(t, version))
			deepest := 0
			var names []string
			for _, calls := range want {
				deepest = max(deepest, len(calls))
				for _, c := range calls {
					if !slices.Contains(names, c.Name) {
						names = append(names, c.Name)
					}
				}
			}
			slices.Sort(names)
			if wanted := []string{"", "(anonymous namespace)::folded", "doubled", "shop::Basket::total"}; deepest != 3 || !slices.Equal(names, wanted) {
				t.Fatalf("%d calls of %q", deepest, names)
			}
			check := func(way, program string) {
				t.Helper()
				if got := callsIn(t, program); !slices.EqualFunc(got, want, func(a, b []Call) bool {
					return slices.EqualFunc(a, b, func(a, b Call) bool { return a.Name == b.Name && a.Position == b.Position })
				}) {
					t.Errorf("%s: the calls differ", way)
				}
			}
			program := buildChain(t, version)
			dir := filepath.Dir(program)
			inDir(t, dir, "objcopy", "--only-keep-debug", "--compress-debug-sections", "program", "program.debug")
			inDir(t, dir, "objcopy", "--strip-debug", "--add-gnu-debuglink=program.debug", "program")
			check("a separate file, compressed", program)

			check("split units", buildChain(t, version, "-gsplit-dwarf"))
			check("types in units of their own", buildChain(t, version, "-fdebug-types-section"))

			program = buildChain(t, version)
			dir = filepath.Dir(program)
			inDir(t, dir, "cp", "program", "other")
			inDir(t, dir, "dwz", "-m", "common.debug", "program", "other")
			check("information shared with another program", program)
		})
	}
}

// A program without debug information has no inlined calls, and a damaged one does no harm.
func TestNoSource(t *testing.T) {
	program := buildChain(t)
	if _, err := openModule(t, program).Source(); err != ErrNoDebugInfo {
		t.Errorf("error %v", err)
	}
	program = buildChain(t, "-gdwarf-5", "-gsplit-dwarf")
	if err := os.Remove(filepath.Join(filepath.Dir(program), "second.dwo")); err != nil {
		t.Fatal(err)
	}
	m := openModule(t, program)
	source, err := m.Source()
	if err != nil {
		t.Fatal(err)
	}
	outer := m.Function(only(t, m, "outer")).Addr
	if calls, at := m.Calls(outer, source, true); len(calls) > 0 || filepath.Base(at.File) != "second.cpp" || at.Line < 4 || at.Line > 6 || source.Err() == nil {
		t.Errorf("without its split unit: calls %v, at %v, error %v", calls, at, source.Err())
	}
}

// A file that is cut while it is mapped yields an error and no crash.
func TestSourceCut(t *testing.T) {
	program := buildChain(t, "-gdwarf-5")
	m := openModule(t, program)
	source, err := m.Source()
	if err != nil {
		t.Fatal(err)
	}
	addr := m.Function(only(t, m, "middle")).Addr
	if err := os.Truncate(program, 4096); err != nil {
		t.Fatal(err)
	}
	calls, at := source.Inlined(addr, true)
	if source.Err() == nil || len(calls) > 0 || at != (debuginfo.Position{}) {
		t.Errorf("calls %v, at %v, error %v", calls, at, source.Err())
	}
}
