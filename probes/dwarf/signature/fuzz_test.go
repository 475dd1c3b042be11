package signature

import (
	"debug/dwarf"
	stdelf "debug/elf"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// exercise calls everything on debug information. Nothing may panic or hang.
func exercise(abbrev, info, str, addr, locations, ranges, lines []byte) (functions int) {
	return exerciseAll(map[string][]byte{"abbrev": abbrev, "info": info, "str": str, "addr": addr, "loclists": locations, "rnglists": ranges, "line_str": lines})
}

// printed prints an object that is read as a whole, as far as it can be.
func printed(v Value, err error) {
	if err != nil || v.Shape == nil {
		return
	}
	t := v.Text
	for _, p := range t.Parts {
		if p.Offset < 0 || p.Size < 0 || p.Offset+max(p.Size, 8) > t.Max && p.Offset+p.Size > t.Max {
			panic("a part lies outside of its object")
		}
	}
	if t.Max > maxWhole+8 || v.Shape.Size > t.Max {
		panic("an object is too large")
	}
	if text := v.Shape.AppendJSON(nil, make([]byte, t.Max)); len(text) > 1<<24 {
		panic("too much is printed")
	}
}

func exerciseAll(sections map[string][]byte) (functions int) {
	d, err := debuginfo.Parse(sections)
	if err != nil {
		return 0
	}
	f, err := open(&elf.DebugInfo{Info: d})
	if err != nil {
		return 0
	}
	langs := []elf.Lang{elf.C, elf.Go, elf.Rust}
	for r := d.Reader(); functions < 20; {
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		low, ok := e.Val(dwarf.AttrLowpc).(uint64)
		if e.Tag != dwarf.TagSubprogram || !ok {
			continue
		}
		lang := langs[functions%len(langs)]
		fn, err := f.function(elf.Function{Addr: low, Lang: lang}, functions%2 == 0, someUses(functions))
		if err != nil {
			continue
		}
		functions++
		_, _ = f.body(elf.Function{Addr: low, Lang: lang})
		fn.Signature(lang)
		at := Where{SPOffset: 8, MaxText: 64}
		wholly := Where{SPOffset: 8, MaxText: 64, Whole: true, Computed: true}
		printed(fn.Arguments(wholly))
		for i := range fn.Params {
			p := &fn.Params[i]
			p.Where()
			printed(fn.value(p, []string{p.Name}, wholly))
			printed(fn.value(p, []string{p.Name, "[0]"}, wholly))
			printed(fn.value(p, []string{p.Name, "[args." + p.Name + "]"}, wholly))
			fn.value(p, []string{p.Name}, at)
			for _, path := range []string{"next", "x", "none", ""} {
				fn.value(p, []string{p.Name, path}, at)
				fn.value(p, []string{p.Name, path, path}, at)
			}
		}
		if fn.Result != nil {
			fn.Return(nil, at)
			fn.Return([]string{"next"}, at)
			printed(fn.Return(nil, wholly))
		}
	}
	return functions
}

// sections returns the sections of a program that has types of all kinds.
func sections(t testing.TB) [8][]byte {
	src := filepath.Join(t.TempDir(), "target.c")
	err := os.WriteFile(src, []byte(`
		typedef struct node { struct node *next; union { int x; float y; }; char name[8]; unsigned bits : 3; } node;
		enum color { red, green = 5 };
		typedef const volatile long seconds;
		struct wide { long a, b, c; };
		int last(node *n, enum color c, seconds s) { return n->next ? last(n->next, c, s) : n->x; }
		node *find(node n, char *name, double d, _Bool b, int (*f)(node *), void *p) { return n.next + (d > 1) + b + f(p) + name[0]; }
		struct wide widen(struct { int x; double y; } v, struct wide w, ...) { w.a += v.x; return w; }
		int main(void) { return 0; }`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	file, err := stdelf.Open(testenv.CompileC(t, src, "-gdwarf-5", "-O1", "-fno-inline"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out [8][]byte
	for i, name := range []string{"abbrev", "info", "str", "addr", "loclists", "rnglists", "line_str", "line"} {
		if s := debuginfo.Section(file, name); s != nil {
			if out[i], err = s.Data(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func FuzzSignature(f *testing.F) {
	s := sections(f)
	f.Add(s[0], s[1], s[2], s[3], s[4], s[5], s[6])
	f.Fuzz(func(t *testing.T, abbrev, info, str, addr, locations, ranges, lines []byte) {
		if len(abbrev)+len(info)+len(str)+len(addr)+len(locations)+len(ranges)+len(lines) < 1<<16 {
			exercise(abbrev, info, str, addr, locations, ranges, lines)
		}
	})
}

// FuzzLines lets the line table of a program be any bytes.
func FuzzLines(f *testing.F) {
	s := sections(f)
	read := func(line []byte) int {
		return exerciseAll(map[string][]byte{"abbrev": s[0], "info": s[1], "str": s[2], "addr": s[3], "loclists": s[4], "rnglists": s[5], "line_str": s[6], "line": line})
	}
	if read(s[7]) == 0 {
		f.Fatal("the seed has no functions")
	}
	f.Add(s[7])
	f.Add(s[7][:len(s[7])/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > 1<<16 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		read(line)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("a line table of %d bytes: %d were allocated", len(line), n)
		}
	})
}

// FuzzLocation needs no debug information other than the expression.
func FuzzLocation(f *testing.F) {
	f.Add([]byte{op.Reg0 + dwDI}, true)
	f.Add([]byte{op.Fbreg, 0x70}, true)
	f.Add([]byte{op.EntryValue, 1, op.Reg0, op.StackValue}, false)
	f.Add([]byte{op.Reg0, op.PieceOf, 8, op.Const1u, 5, op.StackValue, op.PieceOf, 8}, false)
	f.Fuzz(func(t *testing.T, expr []byte, frameIsCFA bool) {
		base := expr
		if frameIsCFA {
			base = cfaBase
		}
		pieces, err := locateAtEntry(expr, base)
		if err == nil && (len(pieces) == 0 || len(pieces) > op.MaxPieces) {
			t.Errorf("%d pieces", len(pieces))
		}
		pieces, err = locate(expr, expr, Frame{Register: dwSP, Offset: 16})
		if err == nil && (len(pieces) == 0 || len(pieces) > op.MaxPieces) {
			t.Errorf("%d pieces in the middle of a function", len(pieces))
		}
	})
}

func TestDamagedDebugInformation(t *testing.T) {
	original := sections(t)
	if n := exercise(original[0], original[1], original[2], original[3], original[4], original[5], original[6]); n < 3 {
		t.Fatalf("%d functions were found in what is not damaged", n)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		damaged := original
		for range 1 + random.IntN(6) {
			i := []int{0, 1, 1, 1, 4, 5}[random.IntN(6)]
			if len(damaged[i]) == 0 {
				continue
			}
			b := append([]byte(nil), damaged[i]...)
			b[random.IntN(len(b))] = byte(random.Uint32())
			damaged[i] = b
		}
		exercise(damaged[0], damaged[1], damaged[2], damaged[3], damaged[4], damaged[5], damaged[6])
	}
}

// someUses reads every other register.
type someUses int

func (u someUses) entryRead(reg int) bool  { return (int(u)+reg)%2 == 0 }
func (u someUses) resultRead(reg int) bool { return (int(u)+reg)%2 == 0 }
