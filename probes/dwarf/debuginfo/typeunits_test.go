package debuginfo

import (
	"debug/dwarf"
	"debug/elf"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

const typesText = `
namespace n {
	struct Inner { int a; long b; };
	struct Point { int x; Inner in; static int count; int f() const { return x; } Point *next; };
}
int n::Point::count = 3;
n::Point point{1, {2, 3}, nullptr};
int main() { return point.f(); }`

func compileTypes(t testing.TB, flags ...string) string {
	t.Helper()
	src := filepath.Join(t.TempDir(), "target.cc")
	if err := os.WriteFile(src, []byte(typesText), 0o644); err != nil {
		t.Fatal(err)
	}
	return testenv.CompileC(t, src, flags...)
}

// layoutOf returns the type of the variable point, with the types of its
// fields.
func layoutOf(t *testing.T, d *Info) string {
	t.Helper()
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			t.Fatalf("there is no variable point: %v", err)
		}
		if e.Tag != dwarf.TagVariable || e.Val(dwarf.AttrName) != "point" {
			continue
		}
		typ, err := ReadType(d.Data, e.Val(dwarf.AttrType).(dwarf.Offset))
		if err != nil {
			t.Fatal(err)
		}
		return describe(typ, 3)
	}
}

func describe(t dwarf.Type, depth int) string {
	switch t := t.(type) {
	case *dwarf.TypedefType:
		return describe(t.Type, depth)
	case *dwarf.PtrType:
		return "*" + describe(t.Type, depth-1)
	case *dwarf.StructType:
		if depth <= 0 {
			return t.StructName
		}
		var fields []string
		for _, f := range t.Field {
			if f.Name != "count" { // static, which DWARF 4 lists
				fields = append(fields, f.Name+" "+describe(f.Type, depth-1))
			}
		}
		return t.StructName + "{" + strings.Join(fields, ", ") + "}"
	}
	return t.String()
}

// Types in units of their own are the same as elsewhere.
func TestTypeUnits(t *testing.T) {
	const want = "Point{x int, in Inner{a int, b long int}, next *Point{x int, in Inner, next *Point}}"
	for _, flags := range []string{"-gdwarf-4", "-gdwarf-5", "-gdwarf-4 -fdebug-types-section", "-gdwarf-5 -fdebug-types-section"} {
		path := compileTypes(t, strings.Fields(flags)...)
		d, err := readFile(t, path)
		if err != nil {
			t.Errorf("%s: %v", flags, err)
			continue
		}
		if got := layoutOf(t, d); got != want {
			t.Errorf("%s: %s, want %s", flags, got, want)
		}
	}
}

// Damaged type units yield an error, or other types.
func TestDamagedTypeUnits(t *testing.T) {
	for _, flags := range []string{"-gdwarf-4", "-gdwarf-5"} {
		f, err := elf.Open(compileTypes(t, flags, "-fdebug-types-section"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		original := map[string][]byte{}
		for _, name := range []string{"abbrev", "info", "types", "str", "line_str"} {
			if s := Section(f, name); s != nil {
				if original[name], err = unpack(s); err != nil {
					t.Fatal(err)
				}
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		joined := 0
		for range 500 {
			damaged := map[string][]byte{}
			for name, b := range original {
				damaged[name] = append([]byte(nil), b...)
				if name == "abbrev" || name == "info" || name == "types" {
					damaged[name][random.IntN(len(b))] = byte(random.Uint32())
				}
			}
			if d, err := Parse(damaged); err == nil {
				joined++
				for r := d.Reader(); ; {
					if e, err := r.Next(); err != nil || e == nil {
						break
					}
				}
			}
		}
		if joined == 0 {
			t.Errorf("%s: none was read", flags)
		}
	}
}
