package debuginfo

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
)

// splitWays are compilers and options by which a unit is split, with the tool that makes a
// package of the files; dwp of binutils 2.40 knows DWARF 4 only.
var splitWays = []struct{ compiler, options, packer string }{
	{"gcc", "-gdwarf-4", "dwp"}, {"gcc", "-gdwarf-4 -fdebug-types-section", "dwp"},
	{"gcc", "-gdwarf-5", "llvm-dwp"}, {"gcc", "-gdwarf-5 -fdebug-types-section", "llvm-dwp"},
	{"clang", "-gdwarf-4", "llvm-dwp"}, {"clang", "-gdwarf-4 -fdebug-types-section", "llvm-dwp"},
	{"gcc", "-gdwarf-4 -ffunction-sections -freorder-blocks-and-partition -O2", "dwp"}, {"gcc", "-gdwarf-5 -ffunction-sections -O2", "llvm-dwp"},
	{"clang", "-gdwarf-4 -ffunction-sections", "llvm-dwp"}, {"clang", "-gdwarf-5 -ffunction-sections", "llvm-dwp"},
	{"clang", "-gdwarf-5", "llvm-dwp"}, {"clang", "-gdwarf-5 -fdebug-types-section", "llvm-dwp"},
}

// buildSplit compiles two files to a program in a directory, which has the .dwo files, and
// makes a package if there is a tool.
func buildSplit(t testing.TB, compiler, options, packer string) (program string) {
	t.Helper()
	dir := t.TempDir()
	second := `
		struct node { struct node *next; const char *label; long number; };
		__attribute__((noinline)) long count_nodes(struct node *from, const char *why, int limit) {
			long n = 0; for (; from && n < limit; from = from->next) n += from->number + (why != 0); return n; }`
	for name, text := range map[string]string{"first.c": common, "second.c": second} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(testenv.NeedProgram(t, args[0]), args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for _, name := range []string{"first", "second"} {
		run(slices.Concat([]string{compiler, "-O1", "-c", name + ".c", "-o", name + ".o"}, strings.Fields(options))...)
	}
	run(compiler, "first.o", "second.o", "-o", "program")
	if packer != "" {
		run(packer, "first.dwo", "second.dwo", "-o", "program.dwp")
	}
	return filepath.Join(dir, "program")
}

func openELF(t testing.TB, path string) *elf.File {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func openSplit(t testing.TB, path string) *SplitFile {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenSplit(openELF(t, path), st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unitEntries returns the entries of the compilation units.
func unitEntries(t testing.TB, d *Info) (out []*dwarf.Entry) {
	t.Helper()
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return out
		}
		if e.Tag == dwarf.TagCompileUnit || e.Tag == dwarf.TagSkeletonUnit {
			out = append(out, e)
		}
		SkipChildren(r, e)
	}
}

// places lists functions with their addresses and ranges, and what has a location at each of
// their addresses.
func places(t *testing.T, d *Info) (out []string) {
	t.Helper()
	free := func(int) error { return nil }
	var unit *dwarf.Entry
	var low, high uint64
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return out
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case dwarf.TagCompileUnit:
			unit = e
			lines, err := d.LineReader(e)
			if err != nil || lines == nil {
				t.Fatalf("%s has no lines: %v", name, err)
			}
			for _, f := range lines.Files() {
				if f != nil {
					out = append(out, "file "+filepath.Base(f.Name))
				}
			}
		case dwarf.TagSubprogram, dwarf.TagLexDwarfBlock:
			ranges, err := d.Ranges(unit, e, free)
			if err != nil {
				t.Fatal(err)
			}
			if e.Tag == dwarf.TagSubprogram && len(ranges) > 0 {
				low, high = ranges[0][0], ranges[0][1]
			}
			out = append(out, fmt.Sprintf("%v %s %x", e.Tag, name, ranges))
		case dwarf.TagFormalParameter, dwarf.TagVariable:
			last := ""
			for pc := low; pc < high; pc++ {
				expr, whole, err := d.Location(unit, e, pc, free)
				if err != nil {
					t.Fatal(err)
				}
				if len(expr) > 0 && expr[0] == 0xfb || len(expr) > 0 && expr[0] == 0xa1 || len(expr) > 0 && expr[0] == 0x03 {
					expr = []byte("an address")
				}
				// GCC's ranges in split units of DWARF 4 end some bytes early, as gdb says too.
				if now := fmt.Sprintf("%x %v", expr, whole); len(expr) > 0 && now != last {
					out, last = append(out, fmt.Sprintf("%s at %x: %s", name, pc, now)), now
				}
			}
		}
	}
}

func sorted(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }

// A split unit is read as if it were whole, from its own file and from a package.
func TestSplit(t *testing.T) {
	for _, way := range testenv.Few(2, splitWays) {
		t.Run(way.compiler+" "+way.options, func(t *testing.T) {
			program := buildSplit(t, way.compiler, way.options+" -gsplit-dwarf", way.packer)
			// The witness is the same program, not split.
			d, err := readFile(t, buildSplit(t, way.compiler, way.options, ""))
			if err != nil {
				t.Fatal(err)
			}
			wantTypes, wantPlaces := functionsOf(t, d), places(t, d)
			if len(wantTypes) < 15 || len(wantPlaces) < 20 {
				t.Fatalf("too little to compare: %q %q", wantTypes, wantPlaces)
			}
			skeletons, err := readFile(t, program)
			if err != nil {
				t.Fatal(err)
			}
			froms := []string{"dwo"}
			if way.packer != "" {
				froms = append(froms, "dwp")
			}
			for _, from := range froms {
				var gotTypes, gotPlaces []string
				for _, unit := range unitEntries(t, skeletons) {
					s := skeletons.Skeleton(unit)
					if s == nil || s.ID == 0 || s.Dir == "" {
						t.Fatalf("the unit is not split: %+v", s)
					}
					path := program + ".dwp"
					if from == "dwo" {
						path = filepath.Join(filepath.Dir(program), s.Name)
					}
					split, err := skeletons.ReadSplit(s, openSplit(t, path))
					if err != nil {
						t.Fatalf("%s of %s: %v", s.Name, path, err)
					}
					gotTypes, gotPlaces = append(gotTypes, functionsOf(t, split)...), append(gotPlaces, places(t, split)...)
				}
				if diff := cmp.Diff(sorted(wantTypes), sorted(gotTypes)); diff != "" {
					t.Errorf("%s: types, -whole +split\n%s", from, diff)
				}
				if diff := cmp.Diff(wantPlaces, gotPlaces); diff != "" {
					t.Errorf("%s: places, -whole +split\n%s", from, diff)
				}
			}
			// A file of another unit is refused.
			s := skeletons.Skeleton(unitEntries(t, skeletons)[0])
			if _, err := skeletons.ReadSplit(s, openSplit(t, filepath.Join(filepath.Dir(program), "second.dwo"))); !errors.Is(err, ErrOtherUnit) {
				t.Errorf("the first unit in second.dwo: %v", err)
			}
		})
	}
}

// What reading a split unit takes of the budget is given back.
func TestSplitTakesOfBudget(t *testing.T) {
	program := buildSplit(t, "gcc", "-gdwarf-5 -gsplit-dwarf", "llvm-dwp")
	d, err := readFile(t, program)
	if err != nil {
		t.Fatal(err)
	}
	old := memory
	memory = &budget{limit: 1 << 30}
	t.Cleanup(func() { memory = old })
	s := d.Skeleton(unitEntries(t, d)[0])
	split, err := d.ReadSplit(s, openSplit(t, program+".dwp"))
	if err != nil {
		t.Fatal(err)
	}
	f := openELF(t, program+".dwp")
	text := uint64(0)
	for _, sec := range f.Sections {
		if sec.Name == ".debug_str.dwo" {
			text = sec.Size
		}
	}
	if memory.taken <= text || memory.taken > text+1<<16 {
		t.Errorf("%d bytes are taken, and the texts are %d", memory.taken, text)
	}
	_ = split.Reader()
	memory.limit = memory.taken + text/2
	if _, err := d.ReadSplit(s, openSplit(t, program+".dwp")); err == nil || !strings.Contains(err.Error(), "does not fit beside") {
		t.Errorf("read twice: %v", err)
	}
}

// GCC writes a section for each type unit; together they take what they have, not more for each.
func TestManyTypeUnits(t *testing.T) {
	var text strings.Builder
	const types = 600
	for i := range types {
		fmt.Fprintf(&text, "struct type_%d { int first_%d; struct type_%d *next; }; long use_%d(struct type_%d *p) { return p->first_%d; }\n", i, i, max(i-1, 0), i, i, i)
	}
	text.WriteString("int main(void) { return 0; }")
	program := compile(t, text.String(), "-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section")
	d, err := readFile(t, program)
	if err != nil {
		t.Fatal(err)
	}
	s := d.Skeleton(unitEntries(t, d)[0])
	path := s.Name
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	old := memory
	memory = &budget{limit: 1 << 30}
	t.Cleanup(func() { memory = old })
	file := openSplit(t, path)
	split, err := d.ReadSplit(s, file)
	if err != nil {
		t.Fatal(err)
	}
	if memory.taken > 4*uint64(st.Size()) {
		t.Errorf("%d bytes are taken for a file of %d", memory.taken, st.Size())
	}
	if got := functionsOf(t, split); !slices.Contains(got, fmt.Sprintf("Subprogram use_%d: long int", types-1)) {
		t.Errorf("%d functions", len(got))
	}
	runtime.KeepAlive(file)
}

// exerciseSplit reads all units of a program from the sections of a .dwo file or a package.
func exerciseSplit(d *Info, skeletons []*Skeleton, sections map[string][]byte, isPackage bool) (read int) {
	s := &SplitFile{sections: map[string]*elf.Section{}, indexes: map[string]*unitIndex{}, whole: map[string][]byte{}, isPackage: isPackage}
	for name, b := range sections {
		switch name {
		case "cu_index", "tu_index":
			x, err := readIndex(b)
			if err != nil {
				return read
			}
			s.indexes[strings.TrimSuffix(name, "_index")] = x
		default:
			s.sections[name] = &elf.Section{SectionHeader: elf.SectionHeader{Name: ".debug_" + name + ".dwo", Size: uint64(len(b))}}
			s.whole[name] = b
		}
	}
	left := 1 << 16
	spend := func(n int) error {
		if left -= n; left < 0 {
			return errors.New("enough")
		}
		return nil
	}
	for _, skeleton := range skeletons {
		split, err := d.ReadSplit(skeleton, s)
		if err != nil {
			continue
		}
		read++
		var unit *dwarf.Entry
		for r := split.Reader(); ; {
			e, err := r.Next()
			if err != nil || e == nil || spend(1+len(e.Field)) != nil {
				break
			}
			if unit == nil {
				unit = e
			}
			split.Ranges(unit, e, spend)
			split.Location(unit, e, skeleton.low, spend)
			if at, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
				ReadType(split.Data, at)
			}
		}
	}
	return read
}

// splitSeed returns the sections of a program's skeletons and of its .dwo file or package.
func splitSeed(t testing.TB, options, file string) (d *Info, skeletons []*Skeleton, sections map[string][]byte) {
	program := buildSplit(t, "clang", options+" -fdebug-types-section -gsplit-dwarf", "llvm-dwp")
	d, err := Read(openELF(t, program))
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range unitEntries(t, d) {
		skeletons = append(skeletons, d.Skeleton(unit))
	}
	sections = map[string][]byte{}
	for _, sec := range openELF(t, filepath.Join(filepath.Dir(program), file)).Sections {
		name := strings.TrimSuffix(strings.TrimPrefix(sec.Name, ".debug_"), ".dwo")
		if name != sec.Name {
			b, err := sec.Data()
			if err != nil {
				t.Fatal(err)
			}
			sections[name] = append(sections[name], b...)
		}
	}
	return d, skeletons, sections
}

// Damaged files yield an error or debug information.
func TestSplitTakesAnything(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, options := range []string{"-gdwarf-4", "-gdwarf-5"} {
		for file, units := range map[string]int{"first.dwo": 1, "program.dwp": 2} {
			d, skeletons, sections := splitSeed(t, options, file)
			isPackage := file == "program.dwp"
			if n := exerciseSplit(d, skeletons, sections, isPackage); n != units {
				t.Errorf("%s %s: %d units of what is not damaged", options, file, n)
			}
			names := []string{"info", "abbrev", "str_offsets", "loc", "loclists", "types", "cu_index", "tu_index"}
			for range testenv.Times(400) {
				damaged := map[string][]byte{}
				for name, b := range sections {
					damaged[name] = slices.Clone(b)
				}
				for range 1 + random.IntN(4) {
					if b := damaged[names[random.IntN(len(names))]]; len(b) > 0 {
						b[random.IntN(len(b))] = byte(random.Uint32())
					}
				}
				exerciseSplit(d, skeletons, damaged, isPackage)
			}
		}
	}
}

// FuzzSplit lets the sections of a .dwo file be any bytes.
func FuzzSplit(f *testing.F) {
	d, skeletons, first := splitSeed(f, "-gdwarf-5", "first.dwo")
	d4, skeletons4, first4 := splitSeed(f, "-gdwarf-4", "first.dwo")
	for i, s := range []map[string][]byte{first, first4} {
		f.Add(s["info"], s["types"], s["abbrev"], s["str"], s["str_offsets"], s["loc"], s["loclists"], s["rnglists"], i == 0)
	}
	f.Fuzz(func(t *testing.T, info, types, abbrev, str, offsets, loc, lists, ranges []byte, five bool) {
		if len(info)+len(types)+len(abbrev)+len(str)+len(offsets)+len(loc)+len(lists)+len(ranges) > 1<<16 {
			return
		}
		sections := map[string][]byte{"info": info, "types": types, "abbrev": abbrev, "str": str, "str_offsets": offsets, "loc": loc, "loclists": lists, "rnglists": ranges}
		if five {
			exerciseSplit(d, skeletons, sections, false)
		} else {
			exerciseSplit(d4, skeletons4, sections, false)
		}
	})
}

// FuzzPackage lets the indexes of a package, and the units, be any bytes.
func FuzzPackage(f *testing.F) {
	d5, skeletons5, whole5 := splitSeed(f, "-gdwarf-5", "program.dwp")
	d4, skeletons4, whole4 := splitSeed(f, "-gdwarf-4", "program.dwp")
	for i, s := range []map[string][]byte{whole5, whole4} {
		f.Add(s["cu_index"], s["tu_index"], s["info"], s["types"], s["abbrev"], i == 0)
	}
	f.Fuzz(func(t *testing.T, cu, tu, info, types, abbrev []byte, five bool) {
		if len(cu)+len(tu)+len(info)+len(types)+len(abbrev) > 1<<16 {
			return
		}
		of, d, skeletons := whole4, d4, skeletons4
		if five {
			of, d, skeletons = whole5, d5, skeletons5
		}
		sections := map[string][]byte{"cu_index": cu, "tu_index": tu, "info": info, "types": types, "abbrev": abbrev}
		for _, name := range []string{"str", "str_offsets", "loc", "loclists", "rnglists"} {
			sections[name] = of[name]
		}
		exerciseSplit(d, skeletons, sections, true)
	})
}

// FuzzSplitFile opens any file as a .dwo file or a package, and reads the units of a program in
// it.
func FuzzSplitFile(f *testing.F) {
	type seed struct {
		d         *Info
		skeletons []*Skeleton
	}
	var seeds []seed
	for _, options := range []string{"-gdwarf-4", "-gdwarf-5"} {
		program := buildSplit(f, "clang", options+" -fdebug-types-section -gsplit-dwarf", "llvm-dwp")
		d, err := Read(openELF(f, program))
		if err != nil {
			f.Fatal(err)
		}
		s := seed{d: d}
		for _, unit := range unitEntries(f, d) {
			s.skeletons = append(s.skeletons, d.Skeleton(unit))
		}
		seeds = append(seeds, s)
		packed := program + ".packed"
		if out, err := exec.Command(testenv.NeedProgram(f, "objcopy"), "--compress-debug-sections=zlib-gabi", program+".dwp", packed).CombinedOutput(); err != nil {
			f.Fatalf("objcopy: %v\n%s", err, out)
		}
		for _, path := range []string{program + ".dwp", packed, filepath.Join(filepath.Dir(program), "first.dwo")} {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, options == "-gdwarf-5")
		}
	}
	f.Fuzz(func(t *testing.T, content []byte, five bool) {
		if len(content) > 1<<16 {
			return
		}
		s := seeds[0]
		if five {
			s = seeds[1]
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		readAll(s.d, s.skeletons, content)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
			t.Errorf("a file of %d bytes: %d were allocated", len(content), n)
		}
	})
}

func readAll(d *Info, skeletons []*Skeleton, content []byte) (read int) {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return 0
	}
	split, err := OpenSplit(file, int64(len(content)))
	if err != nil {
		return 0
	}
	for _, s := range skeletons {
		if _, err := d.ReadSplit(s, split); err == nil {
			read++
		}
	}
	return read
}

// A small file that describes large sections is refused before memory is allocated.
func TestSplitFileTooLarge(t *testing.T) {
	program := buildSplit(t, "gcc", "-gdwarf-5 -gsplit-dwarf", "llvm-dwp")
	d, err := readFile(t, program)
	if err != nil {
		t.Fatal(err)
	}
	skeletons := []*Skeleton{d.Skeleton(unitEntries(t, d)[0])}
	whole, err := os.ReadFile(program + ".dwp")
	if err != nil {
		t.Fatal(err)
	}
	if n := readAll(d, skeletons, whole); n != 1 {
		t.Fatalf("%d units", n)
	}
	headers := binary.LittleEndian.Uint64(whole[0x28:])
	for at := headers; at+64 <= uint64(len(whole)); at += 64 {
		large := slices.Clone(whole)
		binary.LittleEndian.PutUint64(large[at+0x20:], 900<<20) // sh_size
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		readAll(d, skeletons, large)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("section %d is large: %d bytes were allocated", (at-headers)/64, n)
		}
	}
}
