package codesite

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// goProgram calls main.deep 200 * 101 times on stacks that must grow, and has
// a function of each kind of name.
const goProgram = `package main

import (
	"fmt"
	"os"
	"sync"
)

//go:noinline
func deep(n int) int {
	var pad [40]int
	for i := range pad {
		pad[i] = n + i
	}
	if n > 0 {
		return deep(n-1) + pad[n%40]
	}
	return pad[0]
}

//go:noinline
func huge(n int) int {
	var pad [2000]int
	pad[n] = n
	return pad[deep(0)] + pad[n]
}

//go:nosplit
//go:noinline
func leaf(x int) int { return x * 3 }

type Stack[T any] struct{ items []T }

//go:noinline
func (s *Stack[T]) Push(item T) { s.items = append(s.items, item) }

type point struct{ x, y int }

//go:noinline
func (p point) sum() int { return p.x + p.y }

//go:noinline
func (p *point) move() func() int { return func() int { p.x++; return p.sum() } }

//go:noinline
func twice[T int | string](x T) T { return x + x }

func main() {
	os.Stdin.Read(make([]byte, 1))
	var wg sync.WaitGroup
	for range 200 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			deep(100)
		}()
	}
	wg.Wait()
	s := &Stack[string]{}
	s.Push(twice("a"))
	p := &point{1, 2}
	fmt.Println(huge(3), leaf(4), s.items, p.move()(), twice(len(os.Args)))
}
`

// When the stack grows, morestack enters a function again. The chosen site must
// see each call once; the entry sees some twice, which also shows that this
// program is a valid test.
func TestGoSiteCountsEachCallOnce(t *testing.T) {
	path := testenv.CompileGoText(t, goProgram)
	m := moduleAt(t, path)
	i := indexOf(t, m, "main.deep")
	site, err := In(m).EntrySite(i)
	if err != nil {
		t.Fatal(err)
	}
	if !site.PastEntry || site.Method != Emulated {
		t.Errorf("site %+v, want an emulated instruction behind the stack check", site)
	}
	const calls = 200*101 + 1
	if hits := countRun(t, path, site.Offset); hits != calls {
		t.Errorf("%d hits of %d calls at `%s`", hits, calls, site.Insn())
	}
	if hits := countRun(t, path, m.Function(i).Offset); hits <= calls {
		t.Errorf("the entry has %d hits of %d calls: no stack grew", hits, calls)
	}
	if site, err := In(m).EntrySiteFor(i, Need{Entry: true}); err == nil {
		t.Errorf("the entry is a site: %+v", site)
	}
}

func TestGoNamesAndSites(t *testing.T) {
	for _, build := range []struct {
		name  string
		flags []string
	}{
		{"default", nil},
		{"stripped", []string{"-ldflags=-s -w"}},
		{"position-independent", []string{"-buildmode=pie"}},
		{"position-independent and stripped", []string{"-buildmode=pie", "-ldflags=-s -w"}},
	} {
		t.Run(build.name, func(t *testing.T) {
			if build.flags != nil {
				testenv.Long(t)
			}
			path := testenv.CompileGoText(t, goProgram, build.flags...)
			m := moduleAt(t, path)
			if !m.HasGo() {
				t.Fatal("no Go code")
			}
			checkGoProgram(t, m)
		})
	}
	for _, mode := range []string{"exe", "pie"} {
		t.Run("linked by gcc and stripped, "+mode, func(t *testing.T) {
			testenv.Long(t)
			testenv.NeedProgram(t, "gcc")
			dir := t.TempDir()
			for name, content := range map[string]string{
				"go.mod":  "module target\n\ngo 1.23\n",
				"main.go": goProgram,
				"c.go":    "package main\n\n// static int seven(void) { return 7; }\nimport \"C\"\n\nfunc init() { println(C.seven()) }\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "target")
			cmd := exec.Command("go", "build", "-buildmode="+mode, "-ldflags=-s -w -linkmode=external", "-o", path, ".")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			checkGoProgram(t, moduleAt(t, path))
		})
	}
}

// Some linkers (lld) leave zero in the file for words that a relocation fills
// in; then only the relocations show where Go's text begins.
func TestGoTextByRelocations(t *testing.T) {
	path := testenv.CompileGoText(t, goProgram, "-buildmode=pie", "-ldflags=-s -w")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := moduleAt(t, path)
	cleared := 0
	for at := range m.Image().RelativeRelocations() {
		for _, s := range m.Image().Load {
			if s.Contains(at) {
				clear(content[at-s.Start+s.Offset:][:8])
				cleared++
			}
		}
	}
	if cleared < 1000 {
		t.Fatalf("only %d relocations", cleared)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	checkGoProgram(t, moduleAt(t, path))
}

func checkGoProgram(t *testing.T, m *elf.Module) {
	for _, want := range []struct {
		name, class string
		past        bool
	}{
		{"main.main", "", true},
		{"main.deep", "", true},
		{"main.huge", "", true},
		{"main.leaf", "", false},
		{"main.(*Stack[...]).Push", "main.Stack[...]", true},
		{"main.point.sum", "main.point", false},
		{"main.(*point).move", "main.point", true},
		{"main.(*point).move.func1", "main.point", true},
		{"main.main.func1", "", true},
		{"runtime.mallocgc", "", true},
		{"fmt.(*pp).doPrintln", "fmt.pp", true},
	} {
		found := m.Find(want.name)
		if len(found) == 0 {
			t.Errorf("no function %s; nearest: %q", want.name, m.Nearest(want.name, 3))
			continue
		}
		f := m.Function(found[0])
		site, err := In(m).EntrySite(found[0])
		if err != nil || f.Class != want.class || f.Lang != elf.Go || site.PastEntry != want.past {
			t.Errorf("%s: class %q, %v, site %+v, %v; want class %q, past the entry %v", want.name, f.Class, f.Lang, site, err, want.class, want.past)
		}
	}
	if n := len(m.Find("main.twice[...]")); n != 2 {
		t.Errorf("main.twice[...] has %d instances, want 2", n)
	}
	if ok, reason := In(m).ReturnTrap(m.Find("main.deep")[0]); ok || !strings.Contains(reason, "Go moves stacks") {
		t.Errorf("return trap in Go: %v, %q", ok, reason)
	}
	for _, f := range m.All() {
		if f.Name == "runtime.text" || slices.Contains(f.Aliases, "runtime.etext") {
			t.Errorf("%s is no function", f.Name)
		}
	}
}

// In every function that calls morestack the site is after the branch that
// leads there, and nothing before it calls.
func TestGoSitesOfALargeProgram(t *testing.T) {
	m := moduleAt(t, testenv.NeedProgram(t, "gofmt"))
	checks, past := 0, 0
	for i, f := range m.All() {
		site, err := In(m).EntrySite(i)
		if err != nil {
			continue
		}
		body, err := m.Image().Code(f.Addr, f.Size)
		if err != nil {
			t.Fatal(err)
		}
		grows := -1 // where morestack is called
		for pos := 0; pos < len(body); {
			in, err := decode(body[pos:])
			if err != nil {
				break
			}
			if target, ok := in.target(f.Addr + uint64(pos)); ok && in.Op == x86asm.CALL && m.GrowsStack(target) {
				grows = pos
			}
			pos += in.Len
		}
		at := int(site.Addr - f.Addr)
		branches := 0
		for pos := 0; pos < at; {
			in, err := decode(body[pos:])
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if in.Op == x86asm.CALL || in.Op == x86asm.RET || in.Op == x86asm.JMP {
				t.Errorf("%s: `%s` before the site", f.Name, in.syntax(0))
			}
			if in.conditional() {
				branches++
			}
			pos += in.Len
		}
		if grows < 0 { // NOSPLIT: still the first block
			if branches > 0 {
				t.Errorf("%s: site `%s` behind a branch", f.Name, site.Insn())
			}
			continue
		}
		checks++
		if branches == 0 {
			t.Errorf("%s: site `%s` before the stack check", f.Name, site.Insn())
		}
		if site.Method == Emulated {
			past++
		}
	}
	if checks < 2000 || past < checks*9/10 {
		t.Errorf("%d functions with a stack check, %d of them with an emulated site", checks, past)
	}
	t.Logf("%d functions with a stack check, %d of them with an emulated site", checks, past)
}
